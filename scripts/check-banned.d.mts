export declare const checkBanned: (src: string) => ReadonlyArray<string>
