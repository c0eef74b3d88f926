export declare const checkFloors: (src: string) => ReadonlyArray<string>
