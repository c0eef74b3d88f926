export declare const longTests: ReadonlyArray<string>
