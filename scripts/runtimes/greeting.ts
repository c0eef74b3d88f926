export enum Greeting {
  Hello = "hello"
}

export interface Person {
  readonly name: string
}
