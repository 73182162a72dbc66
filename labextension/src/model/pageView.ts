/** Whether anybody can see the page: one in a tab behind others asks for nothing that can wait. */

export type PageView = Pick<Document, 'hidden' | 'addEventListener' | 'removeEventListener'>;
