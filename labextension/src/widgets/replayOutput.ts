/** The output of a replay: its player while the kernel has it, else the text that was saved with it. */

import type { NotebookPanel } from '@jupyterlab/notebook';
import { PanelLayout, Widget } from '@lumino/widgets';

const REPLAY_MIME = 'application/vnd.ozzie.replay+json';
const PLAYER_MIME = 'application/vnd.jupyter.widget-view+json';
const SAVED_MIME = 'text/markdown';
const OVER = 'jupyter-widgets-disconnected';
/** Lower than that of widgets (-10), so that we draw the output. */
const RANK = -20;

type RenderMime = Pick<NotebookPanel['content']['rendermime'], 'addFactory' | 'createRenderer' | 'getFactory'>;
type Renderer = ReturnType<RenderMime['createRenderer']>;
type Model = Parameters<Renderer['renderModel']>[0];

/**
 * Draw the replays of a notebook, whose kernel is known once it is `ready`. In Lab alone, a player whose kernel is gone
 * is "Error displaying widget".
 */
export function drawReplays(rendermime: RenderMime, ready: Promise<unknown>): void {
  rendermime.addFactory(
    { safe: false, mimeTypes: [REPLAY_MIME], createRenderer: () => new ReplayOutput(rendermime, ready) },
    RANK
  );
}

class ReplayOutput extends Widget implements Renderer {
  private readonly all = new PanelLayout();
  private readonly news = new MutationObserver(() => this.choose());
  private saved: Renderer | null = null;
  private player: Renderer | null = null;

  constructor(
    private readonly rendermime: RenderMime,
    private readonly ready: Promise<unknown>
  ) {
    super();
    this.layout = this.all;
  }

  async renderModel(model: Model): Promise<void> {
    this.news.disconnect();
    this.saved?.dispose();
    this.player?.dispose();
    this.player = null;
    const saved = this.rendermime.createRenderer(SAVED_MIME);
    this.saved = saved;
    this.all.addWidget(saved);
    await saved.renderModel(model);
    void this.ready.then(() => setTimeout(() => void this.renderPlayer(saved, model)));
  }

  override dispose(): void {
    this.news.disconnect();
    super.dispose();
  }

  /** Draw the player, once the widget manager of the notebook's kernel has replaced the renderer of widgets. */
  private async renderPlayer(saved: Renderer, model: Model): Promise<void> {
    if (saved.isDisposed || !this.rendermime.getFactory(PLAYER_MIME)) {
      return; // drawn again meanwhile, or in a Lab without widgets
    }
    this.player = this.rendermime.createRenderer(PLAYER_MIME);
    this.all.addWidget(this.player);
    this.news.observe(this.player.node, { childList: true, subtree: true, attributeFilter: ['class'] });
    this.choose();
    await this.player.renderModel(model);
  }

  /**
   * The widget manager says in plain text that a player is loading or gone; a player is an element, and marked if its
   * kernel was restarted.
   */
  private choose(): void {
    const node = this.player?.node;
    const isThere = node !== undefined && node.childElementCount > 0 && !node.querySelector(`.${OVER}`);
    this.player?.setHidden(!isThere);
    this.saved?.setHidden(isThere);
  }
}
