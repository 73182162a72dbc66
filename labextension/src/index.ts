/** The list of plugins, nothing else. */

import { clientPlugin } from './plugins/client';

export default [clientPlugin];
