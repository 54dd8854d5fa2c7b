// A model in a Node program as a child process: `colibri serve`, streams, cancel, and a watchdog that
// kills and restarts a child which has gone silent. Node 18 or later, nothing to install.
//   node child.mjs PROGRAM MODEL
import { spawn } from 'node:child_process';
import { once } from 'node:events';

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

class Colibri {
  // silenceMs: so long without a sign of life, and the child is killed and started anew.
  constructor(program, model, { silenceMs = 3000, startMs = 120000, onRestart = () => {} } = {}) {
    Object.assign(this, { program, model, silenceMs, startMs, onRestart });
    this.isClosing = false;
  }

  async start() {
    const words = ['serve', '--model', this.model, '--port', '0', '--max-context', '1024',
      '--transport', 'local', '--ranks', '2'];
    const child = spawn(this.program, words, { stdio: ['ignore', 'ignore', 'pipe'] });
    this.child = child;
    this.ended = once(child, 'exit');
    // The last lines of stderr, for errors; the address stands there once requests can run.
    let said = '';
    this.url = await new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`no address: ${said}`)), this.startMs);
      child.on('error', reject);
      child.on('exit', (code, signal) => reject(new Error(`ended with ${code ?? signal}: ${said}`)));
      child.stderr.setEncoding('utf8').on('data', (text) => {
        said = (said + text).slice(-4096);
        const address = / at (http:\/\/\S+)\s/.exec(said);
        if (address) {
          clearTimeout(timer);
          resolve(address[1]);
        }
      });
    }).catch((error) => {
      child.kill('SIGKILL');
      throw error;
    });
    this.watch(child);
    return this;
  }

  // Asks for /health again and again. A stopped or stuck process does not answer, a dead one neither.
  async watch(child) {
    while (!this.isClosing && this.child === child) {
      try {
        const signal = AbortSignal.timeout(this.silenceMs);
        const health = await fetch(`${this.url}/health`, { signal });
        if (health.ok) {
          await sleep(this.silenceMs / 4);
          continue;
        }
      } catch {}
      if (this.isClosing || this.child !== child) return;
      child.kill('SIGKILL');  // for certain: a stopped process does not see SIGTERM
      await this.ended;
      this.restarting = this.start();
      this.onRestart();
      await this.restarting.catch((error) => console.error(`restart failed: ${error.message}`));
      return;  // the new child has its own watch
    }
  }

  // Pieces of text as they come. `signal` cancels: the server sees the client go and ends the request.
  // A stream that says nothing for silenceMs ends with an error.
  async *stream(prompt, { signal, ...fields } = {}) {
    const silence = new AbortController();
    let timer;
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(new Error('the stream went silent')), this.silenceMs);
    };
    const signals = [silence.signal, ...(signal ? [signal] : [])];
    const either = new AbortController();
    for (const one of signals) one.addEventListener('abort', () => either.abort(one.reason));
    try {
      heard();
      const answer = await fetch(`${this.url}/v1/completions`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ prompt, stream: true, ...fields }),
        signal: either.signal,
      });
      if (!answer.ok) throw new Error((await answer.json()).error.message);
      let rest = '';
      for await (const text of answer.body.pipeThrough(new TextDecoderStream())) {
        heard();
        const events = (rest + text).split('\n\n');
        rest = events.pop();
        for (const event of events) {
          const data = event.replace(/^data: /, '');
          if (data === '[DONE]') return;
          const message = JSON.parse(data);
          if (message.error) throw new Error(message.error.message);
          if (message.choices[0]?.text) yield message.choices[0].text;
        }
      }
    } finally {
      clearTimeout(timer);
    }
  }

  // Requests under way may end; what is left after graceMs is killed.
  async close(graceMs = 10000) {
    this.isClosing = true;
    this.child.kill('SIGTERM');
    const timer = setTimeout(() => this.child.kill('SIGKILL'), graceMs);
    const [code, signal] = await this.ended;
    clearTimeout(timer);
    return code ?? signal;
  }
}

async function main(program, model) {
  let restarted;
  const hasRestarted = new Promise((resolve) => { restarted = resolve; });
  const colibri = new Colibri(program, model, { silenceMs: 2000, onRestart: restarted });
  await colibri.start();
  const greedy = { temperature: 0, max_tokens: 32 };
  for await (const text of colibri.stream('ROMEO:', greedy)) process.stdout.write(text);
  console.log('\n-- streamed');

  const cancel = new AbortController();
  let numPieces = 0;
  try {
    const endless = { max_tokens: 1000, ignore_eos: true, signal: cancel.signal };
    for await (const text of colibri.stream('ROMEO:', endless)) {
      if (text && ++numPieces === 5) cancel.abort();
    }
  } catch (error) {
    if (error.name !== 'AbortError') throw error;
  }
  console.log('-- cancelled after', numPieces, 'pieces');

  const first = colibri.child.pid;
  colibri.child.kill('SIGSTOP');  // as if it hung
  await hasRestarted;
  await colibri.restarting;
  console.log('-- was silent, killed and restarted:', colibri.child.pid !== first);
  let again = '';
  for await (const text of colibri.stream('JULIET:', greedy)) again += text;
  console.log(`JULIET:${again}`);
  console.log('-- ended with', await colibri.close());
}

if (process.argv.length !== 4) {
  console.error('usage: node child.mjs PROGRAM MODEL');
  process.exit(2);
}
await main(process.argv[2], process.argv[3]);
