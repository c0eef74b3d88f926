export declare const reachable: (entries: ReadonlyArray<string>) => Map<string, ReadonlyArray<string>>
