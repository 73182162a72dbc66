/**
 * Reduces cell outputs that a tool supplied to inert ones, whether or not the notebook is trusted. The gateway does so
 * too (`tools/notebook/files.py`); this is a second barrier, because Lab trusts new outputs here.
 */

import type { IOutput } from '@jupyterlab/nbformat';

import { isObject, joined } from '../api/notebookFrames';

const FORMS: ReadonlySet<string> = new Set(['text/plain', 'image/png', 'image/jpeg', 'image/gif', 'image/webp']);

/** Return the outputs without active or loading parts, and without those that are then empty. */
export function inertOutputs(outputs: readonly unknown[]): IOutput[] {
  return outputs.map(inert).filter(output => output !== null);
}

/** Return the inert attachments of a Markdown cell. */
export function inertAttachments(attachments: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const kept = Object.entries(attachments).map(([name, data]) => [name, inertData(data)] as const);
  return Object.fromEntries(kept.filter(([, data]) => Object.keys(data).length > 0));
}

/** Return the metadata without `trusted`: only Lab itself may set it in this page, never a file or a tool. */
export function untrusted(metadata: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(metadata).filter(([key]) => key !== 'trusted'));
}

/** Rebuild the output from known fields only. */
function inert(output: unknown): IOutput | null {
  if (!isObject(output)) {
    return null;
  }
  const { output_type: kind, metadata, execution_count: count } = output;
  switch (kind) {
    case 'stream': {
      // One text: the shared model would join a list of lines with commas.
      const text = joined(output.text);
      return text === null ? null : { output_type: kind, name: output.name === 'stderr' ? 'stderr' : 'stdout', text };
    }
    case 'error': {
      const traceback = Array.isArray(output.traceback)
        ? output.traceback.filter(line => typeof line === 'string')
        : [];
      return { output_type: kind, ename: textOf(output.ename), evalue: textOf(output.evalue), traceback };
    }
    case 'display_data':
    case 'execute_result': {
      const data = inertData(output.data);
      const forms = Object.keys(data);
      if (forms.length === 0) {
        return null;
      }
      const own = isObject(metadata) ? Object.entries(metadata).filter(([form]) => Object.hasOwn(data, form)) : [];
      const shown = { output_type: kind, data, metadata: Object.fromEntries(own) } as IOutput;
      return kind === 'execute_result'
        ? { ...shown, execution_count: typeof count === 'number' ? count : null }
        : shown;
    }
    default:
      return null;
  }
}

function inertData(data: unknown): Record<string, string> {
  const kept = Object.entries(isObject(data) ? data : {}).flatMap(([form, value]) => {
    const text = FORMS.has(form) ? joined(value) : null;
    return text === null ? [] : [[form, text] as const];
  });
  return Object.fromEntries(kept);
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
