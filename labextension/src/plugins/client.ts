/** The connection to Ozzie, with the user's Jupyter identity. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { PageConfig } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import { OzzieApi } from '../api/requests';
import { FeedSocket } from '../api/socket';
import { ApprovalBook } from '../model/approvals';
import { TaskBoard } from '../model/board';
import { OpenNotebooks } from '../model/openNotebooks';
import { IOzzie } from '../tokens';

export const clientPlugin: JupyterFrontEndPlugin<IOzzie> = {
  id: '@ozzie/labextension:client',
  description: 'Connects to Ozzie and follows its tasks and approvals.',
  autoStart: true,
  provides: IOzzie,
  activate: (app: JupyterFrontEnd): IOzzie => {
    const settings = app.serviceManager.serverSettings;
    const api = new OzzieApi(settings.baseUrl, (url, init) => ServerConnection.makeRequest(url, init, settings));
    // The cookie identifies the user: our addresses contain no token.
    const socket = new FeedSocket({ url: `${settings.wsUrl}ozzie/api/ws`, WebSocket: settings.WebSocket });
    const board = new TaskBoard(api, socket);
    const approvals = new ApprovalBook(api, socket, board);
    const notebooks = new OpenNotebooks(socket, PageConfig.getOption('serverRoot'));
    window.addEventListener('offline', () => socket.cut());
    window.addEventListener('online', () => socket.retry());
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden) {
        socket.retry();
      }
    });
    // The page's own content comes first; the list can wait.
    void app.restored.then(() => board.load());
    return { api, board, approvals, notebooks };
  }
};
