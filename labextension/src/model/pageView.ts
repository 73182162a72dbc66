/** Whether the page is visible. A hidden page requests nothing that can wait. */

export type PageView = Pick<Document, 'hidden' | 'addEventListener' | 'removeEventListener'>;
