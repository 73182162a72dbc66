/** Opens a new notebook, or the first one that a person should run. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Dialog, ICommandPalette, Notification, showDialog } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import { ILauncher } from '@jupyterlab/launcher';
import type { Contents } from '@jupyterlab/services';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { errorText } from '../api/requests';
import { CATEGORY, CommandIDs } from '../commands';
import { IOzzie } from '../tokens';
import { ozzieIcon } from './sidebar';

export const notebooksPlugin: JupyterFrontEndPlugin<void> = {
  id: '@ozzie/labextension:notebooks',
  description: 'Opens a new notebook, or the first one to run.',
  autoStart: true,
  requires: [IOzzie],
  optional: [ITranslator, ICommandPalette, ILauncher],
  activate: (
    app: JupyterFrontEnd,
    { api }: IOzzie,
    translator: ITranslator | null,
    palette: ICommandPalette | null,
    launcher: ILauncher | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('ozzie');
    const { commands } = app;
    const { contents } = app.serviceManager;

    const isThere = (path: string): Promise<boolean> =>
      contents.get(path, { content: false }).then(
        () => true,
        () => false
      );

    /** Create the missing files. Raises errors of the contents API. */
    const put = async (files: readonly { path: string; content: string }[]): Promise<void> => {
      for (const { path, content } of files) {
        const folder = PathExt.dirname(path);
        if (folder && !(await isThere(folder))) {
          await contents.save(folder, { type: 'directory' });
        }
        if (!(await isThere(path))) {
          const model: Partial<Contents.IModel> = path.endsWith('.ipynb')
            ? { type: 'notebook', format: 'json', content: JSON.parse(content) as unknown }
            : { type: 'file', format: 'text', content };
          await contents.save(path, model);
        }
      }
    };

    const openFirst = async (): Promise<void> => {
      const files = await api.examples();
      const notebook = files.find(file => file.path.endsWith('.ipynb'))?.path ?? '';
      if (!(await isThere(notebook))) {
        const answer = await showDialog({
          title: trans.__('Put the first notebook here?'),
          body: trans.__('These files are copied into the folder that Jupyter shows: %1.', names(files)),
          buttons: [Dialog.cancelButton(), Dialog.okButton({ label: trans.__('Copy and Open') })]
        });
        if (!answer.button.accept) {
          return;
        }
        await put(files);
      }
      await commands.execute('docmanager:open', { path: notebook });
    };

    commands.addCommand(CommandIDs.newNotebook, {
      label: trans.__('New Notebook'),
      caption: trans.__('A new notebook whose cells are messages to Ozzie'),
      icon: ozzieIcon,
      execute: () => commands.execute('notebook:create-new', { kernelName: 'ozzie' })
    });
    commands.addCommand(CommandIDs.firstNotebook, {
      label: args => (args.isLauncher ? trans.__('Ozzie: first notebook') : trans.__('Open First Notebook')),
      caption: trans.__('What Ozzie can do, cell by cell; no key is needed'),
      icon: ozzieIcon,
      execute: async () => {
        try {
          await openFirst();
        } catch (error) {
          const text = trans.__('The first notebook could not be opened. %1', errorText(error));
          Notification.error(text, { autoClose: 8_000 });
        }
      }
    });
    for (const command of [CommandIDs.newNotebook, CommandIDs.firstNotebook]) {
      palette?.addItem({ command, category: CATEGORY });
    }
    launcher?.add({ command: CommandIDs.firstNotebook, category: trans.__('Other'), args: { isLauncher: true } });
  }
};

function names(files: readonly { path: string }[]): string {
  return files.map(file => file.path).join(', ');
}
