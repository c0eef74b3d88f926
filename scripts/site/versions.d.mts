/** The releases before a version: the last one of each minor version, newest first. */
export declare const earlierThan: (version: string, tags: ReadonlyArray<string>) => ReadonlyArray<string>

/** Builds the earlier releases of a repository into the folder of its site. Returns their versions. */
export declare const addVersions: (root: string, folder: string) => ReadonlyArray<string>
