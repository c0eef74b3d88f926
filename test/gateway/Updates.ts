/** A text message in a private chat, as Telegram sends it. */
export const message = (id: number, text: string, chat = 7, user = chat) => ({
  update_id: id,
  message: {
    message_id: id * 10,
    date: 1_700_000_000,
    chat: { id: chat, type: "private", first_name: "Ada" },
    from: { id: user, is_bot: false, first_name: "Ada" },
    text
  }
})
