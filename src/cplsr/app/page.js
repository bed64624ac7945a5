// The browser's half of the page. It says what a visitor does (`data-do`, see page.py), puts the parts that come back
// in their places, sends files in parts, and listens to keys. Gradio gives `trigger`, `props` and `watch`.

const KEY = 'cplsr-session', PART_FILES = 32, PART_BYTES = 8e6, PART_NAMES = 2000;
const NO_MORE = {403: 'no_cookies', 413: 'too_much_an_hour', 507: 'not_stored'};
const root = document.getElementById('root'), $ = selector => root.querySelector(selector);
let settle = null, underWay = 0, last = Promise.resolve();
let now = {classes: []}, texts = {}, chosen = [], land = null;

// ---- saying and being told

// One thing after the other: the promise is kept when the server is done with this one.
function act(action) {
  begin();
  last = last.then(() => new Promise(resolve => { settle = resolve; trigger('click', action); }));
  return last.then(end);
}

function begin() { underWay += 1; root.setAttribute('aria-busy', 'true'); }
function end() { if (!(underWay -= 1)) root.removeAttribute('aria-busy'); }

window.cplsrSettled = () => settle();

function fill(template, values) {
  const number = value => typeof value === 'number' ? value.toLocaleString($('#page').lang) : value;
  return template.replace(/\{(\w+)\}/g, (gap, name) => name in values ? number(values[name]) : gap);
}

// What differs from a message that is still there in its numbers alone takes its place.
function say(messages) {
  const close = texts.close, kind = text => text.replace(/\d+/g, '');
  for (const text of messages || []) {
    for (const old of root.querySelectorAll('.message'))
      if (kind(old.firstChild.textContent) === kind(text)) old.remove();
    const box = Object.assign(document.createElement('p'), {className: 'message', textContent: text});
    const button = Object.assign(document.createElement('button'), {type: 'button', className: 'quiet', textContent: '✕'});
    button.setAttribute('aria-label', close);
    button.onclick = () => box.remove();
    box.append(button);
    $('#messages').append(box);
    setTimeout(() => box.remove(), 15000);
  }
}

function show(told) {
  if (told.frame) {
    root.innerHTML = told.frame;
    texts = JSON.parse($('#page').dataset.texts);
    document.documentElement.lang = $('#page').lang;
    prepare('class', files => { chosen = files; showChosen(); });
    prepare('query', files => send(files.map(({file}) => ({file, folder: ''})), 'query'));  // their folders say nothing
    $('#teach').onsubmit = event => { event.preventDefault(); teach(); };
    showChosen();
  }
  const focused = document.activeElement?.dataset?.key;
  const unfolded = new Set([...root.querySelectorAll('details[open] > summary')].map(e => e.dataset.key));
  for (const [id, html] of Object.entries(told.parts)) {
    const place = document.getElementById(id);
    if (place.shown !== html) place.innerHTML = place.shown = html;
  }
  for (const summary of root.querySelectorAll('details > summary'))
    if (unfolded.has(summary.dataset.key) && summary.dataset.key === 'left-out') summary.parentElement.open = true;
  const again = land !== null ? [...root.querySelectorAll('.answer')].at(land)
    : focused && root.querySelector(`[data-key="${CSS.escape(focused)}"]`);
  land = null;
  if (again && document.activeElement !== again) again.focus({preventScroll: true});
  if ($('.detail') && $('.detail').dataset.shown !== now.detail)
    $('.detail').scrollIntoView({behavior: 'smooth', block: 'nearest'});
  now = {classes: told.classes, detail: $('.detail')?.dataset.shown, full: told.full};
  $('#waiting').hidden = told.ready;
  $('#labeling').hidden = !told.ready;
  $('#undo').disabled = !told.undoable;
  say(told.messages);
  remember(told.key);
  if (told.download) {
    const link = Object.assign(document.createElement('a'), {href: told.download, download: ''});
    document.body.append(link); link.click(); link.remove();
  }
}

function remember(key) {
  try {
    if (key) localStorage.setItem(KEY, key);
    return localStorage.getItem(KEY);
  } catch { return null; }  // a browser may forbid it: then a reload starts afresh
}

watch('value', () => { if (props.value) show(JSON.parse(props.value)); });
const key = remember();
act({do: 'arrive', language: navigator.language.startsWith('de') ? 'de' : 'en',
     ...(/^[0-9a-f]{32}$/.test(key || '') && {key})});

// ---- what is pressed, sent and chosen

function told(source) {
  const {do: name, key: _, ...fields} = source.dataset;
  return {do: name, ...fields};
}

root.addEventListener('click', event => {
  const hit = event.target.closest('button[data-do]');
  if (hit) act(told(hit));
});
root.addEventListener('submit', event => {
  if (!event.target.dataset.do) return;
  event.preventDefault();
  act({...told(event.target), ...Object.fromEntries(new FormData(event.target))});
});
root.addEventListener('change', event => {
  const hit = event.target;
  if (!hit.dataset.do || !hit.name) return;
  if (hit.closest('#answers')) $('#answers').shown = null;  // where the server refuses, it is put back
  act({do: hit.dataset.do, [hit.name]: hit.value});
});
root.addEventListener('input', ({target: hit}) => {
  if (hit.name !== 'threshold') return;
  const share = Math.round(100 * hit.value), count = JSON.parse(hit.dataset.unknown)[share];
  $('#share').textContent = fill(texts.threshold, {share});
  $('#unknowns').textContent = fill(texts.unknowns, {count, of: Number(hit.dataset.of)});
});

// ---- keys: arrows go from answer to answer, digits give a class, Esc closes, Ctrl+Z takes back

document.addEventListener('keydown', event => {
  if ((event.ctrlKey || event.metaKey) && event.key === 'z' && !event.target.closest('input:not([type=range], [type=file])')) {
    event.preventDefault();
    $('#undo').click();
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input, select, textarea')) return;
  if (event.key === 'Escape' && $('.detail')) {
    const back = $(`[data-key="answer-${$('.detail').dataset.shown}"]`);
    act({do: 'close'});
    back?.focus();
    return;
  }
  const tile = event.target.closest('.answer');
  const position = tile ? tile.dataset.answer : event.target.closest('.detail')?.dataset.shown;
  const right = now.classes[Number(event.key) - 1];
  if (/^[1-9]$/.test(event.key) && position !== undefined && right !== undefined) {
    act({do: 'correct', answer: position, right});
    if (tile) step(tile, 1);
  } else if (tile && event.key.startsWith('Arrow')) {
    const row = Math.round($('.answers').clientWidth / (tile.offsetWidth + 8));
    const by = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -row, ArrowDown: row}[event.key];
    if (!step(tile, by)) turn(by);
    event.preventDefault();
  }
});

function step(tile, by) {
  const tiles = [...root.querySelectorAll('.answer')], next = tiles[tiles.indexOf(tile) + by];
  next?.focus();
  return next;
}

// To the next page's first picture, or to the last of the one before.
function turn(by) {
  const button = $(`.pager [data-key=${by > 0 ? 'next' : 'previous'}]:not(:disabled)`);
  if (!button) return;
  land = by > 0 ? 0 : -1;
  act(told(button));
}

// ---- files and folders

function prepare(name, use) {
  const zone = $(`#${name}-drop`);
  for (const kind of ['files', 'folder']) {
    const input = $(`#${name}-${kind}`);
    input.onchange = () => {
      use([...input.files].map(file => ({file, folder: file.webkitRelativePath.split('/').at(-2) || ''})));
      input.value = '';
    };
  }
  zone.ondragover = event => { event.preventDefault(); zone.classList.add('over'); };
  zone.ondragleave = () => zone.classList.remove('over');
  zone.ondrop = async event => {
    event.preventDefault();
    zone.classList.remove('over');
    const entries = [...event.dataTransfer.items].map(item => item.webkitGetAsEntry()).filter(Boolean);
    use((await Promise.all(entries.map(entry => filesIn(entry, '')))).flat());
  };
}

async function filesIn(entry, folder) {
  if (entry.isFile) return [{file: await new Promise((found, failed) => entry.file(found, failed)), folder}];
  const reader = entry.createReader(), entries = [];
  for (;;) {  // a reader gives a hundred at a time
    const some = await new Promise((found, failed) => reader.readEntries(found, failed));
    if (!some.length) break;
    entries.push(...some);
  }
  return (await Promise.all(entries.map(inner => filesIn(inner, entry.name)))).flat();
}

function showChosen() {
  $('#chosen').textContent = chosen.length ? fill(texts.chosen, {count: chosen.length}) : '';
}

async function teach() {
  const name = $('#class-name').value.trim();
  if (!chosen.length) return say([texts.no_files]);
  if (!name && chosen.some(({folder}) => !folder)) return say([texts.no_name]);
  const files = chosen;
  chosen = [];
  showChosen();
  $('#class-name').value = '';
  await send(files, 'class', name);
}

// Files go in parts, one after the other, so that there is progress to show and others have their turn in between.
// Once the server takes no more, the rest is only named. The last message says that nothing follows.
async function send(files, zone, name) {
  const drop = crypto.getRandomValues(new Uint32Array(2)).join('-'), began = performance.now();
  const box = $(`#${zone}-drop .uploading`), [bar, words, stop] = box.children;
  const tell = fields => act({do: zone === 'class' ? 'teach' : 'label', name: '', drop, ...fields});
  let stopped = false, done = 0, full = '';
  const late = [];
  begin();
  box.hidden = false;
  stop.onclick = () => { stopped = true; };
  for (const part of parts(files, name)) {
    if (stopped) break;
    const left = (performance.now() - began) / 1000 / done * (files.length - done);
    const time = left > 90 ? fill(texts.minutes, {count: Math.round(left / 60)}) : fill(texts.seconds, {count: Math.ceil(left)});
    bar.value = done / files.length;
    words.textContent = fill(done ? texts.progress : texts.progress_first, {done, of: files.length, left: time});
    done += part.length;
    if (full && (full !== 'too_many_classes' || !now.classes.includes(part[0].name))) {
      late.push(...part.map(one => refusal(one, full)));
      continue;
    }
    const {paths, refused, why} = await upload(part);
    await tell({name: part[0].name, files: paths, refused, more: true});
    full = why || now.full || full;
  }
  do await tell({refused: late.splice(0, PART_NAMES), more: late.length > 0}); while (late.length);
  box.hidden = true;
  end();
}

function parts(files, name) {
  const named = files.map(({file, folder}) => ({file, name: name || folder}));
  named.sort((a, b) => a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
  const all = [];
  let bytes = 0;
  for (const one of named) {
    const last = all.at(-1);
    const size = trouble(one) ? 0 : one.file.size;  // that is not sent
    bytes += size;
    if (last && last[0].name === one.name && last.length < PART_FILES && bytes <= PART_BYTES) last.push(one);
    else { all.push([one]); bytes = size; }
  }
  return all;
}

const refusal = ({file}, reason) => ({name: file.name.slice(0, 300), reason});

// What is too large, or no picture by what the browser knows of it, stays here.
function trouble({file}) {
  if (file.type && !file.type.startsWith('image/')) return 'not_picture';
  return file.size > Number($('#page').dataset.mostBytes) ? 'too_large' : '';
}

// Where the server refuses a part, its files are sent one by one, so that only the bad one is left out. `why` is there
// where it would refuse all others as well.
async function upload(part) {
  const refused = part.filter(trouble).map(one => refusal(one, trouble(one))), good = part.filter(one => !trouble(one));
  if (!good.length) return {paths: [], refused};
  const form = new FormData();
  for (const {file} of good) form.append('files', file, file.name);
  const answer = await fetch('/gradio_api/upload', {method: 'POST', body: form}).catch(() => null);
  if (answer?.ok) return {paths: await answer.json(), refused};
  const why = answer ? NO_MORE[answer.status] : 'not_taken';
  if (!answer) say([texts.failed]);
  if (why || good.length === 1)
    return {paths: [], refused: [...refused, ...good.map(one => refusal(one, why || 'not_taken'))], why};
  const all = {paths: [], refused};
  for (const one of good) {
    const {paths, refused: more, why} = await upload([one]);
    all.paths.push(...paths);
    all.refused.push(...more);
    all.why ||= why;
  }
  return all;
}
