/** The list of plugins. */

import { cellsPlugin } from './plugins/cells';
import { clientPlugin } from './plugins/client';
import { madeFromPlugin } from './plugins/madeFrom';
import { notebooksPlugin } from './plugins/notebooks';
import { openNotebooksPlugin } from './plugins/openNotebooks';
import { ownWordsPlugin } from './plugins/ownWords';
import { replaysPlugin } from './plugins/replays';
import { sidebarPlugin } from './plugins/sidebar';
import { statusPlugin } from './plugins/status';
import { widgetsPlugin } from './plugins/widgets';

export default [
  clientPlugin,
  sidebarPlugin,
  statusPlugin,
  cellsPlugin,
  notebooksPlugin,
  openNotebooksPlugin,
  madeFromPlugin,
  ownWordsPlugin,
  replaysPlugin,
  widgetsPlugin
];
