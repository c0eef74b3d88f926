# The service. Set DATABASE_URL and NIGHTSHIFT_ADMIN_TOKEN.
FROM node:24-slim AS build
WORKDIR /nightshift
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts
COPY . .
RUN npm run build && npm prune --omit=dev --omit=optional --ignore-scripts

FROM node:24-slim
WORKDIR /nightshift
ENV NODE_ENV=production HOST=0.0.0.0
COPY --from=build /nightshift/package.json ./
COPY --from=build /nightshift/node_modules ./node_modules
COPY --from=build /nightshift/dist ./dist
COPY --from=build /nightshift/migrations ./migrations
USER node
EXPOSE 8787
HEALTHCHECK --interval=10s --timeout=8s --start-period=30s CMD node dist/nightshift.js doctor --url "http://127.0.0.1:${PORT:-8787}"
# No shell in between, so that SIGTERM reaches the process and it shuts down gracefully.
ENTRYPOINT ["node", "dist/nightshift.js"]
CMD ["serve"]
