export declare const anchors: () => (heading: string) => string
export declare const isExternal: (href: string) => boolean
export declare const target: (from: string, href: string) => { readonly file: string; readonly anchor?: string }
