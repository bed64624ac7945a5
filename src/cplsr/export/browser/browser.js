// Labels pictures in the browser: a file or the camera, the preprocessing of cplsr, and ONNX Runtime.

import * as ort from './ort.wasm.min.mjs';

const TEXTS = {
  en: {title: 'Which class is it?', private: 'The model runs here, in this browser; pictures are sent nowhere.',
       choose: 'Choose a picture', camera: 'Use the camera', stop: 'Stop the camera', loading: 'Loading the model …',
       ready: 'Ready.', nothing: 'That cannot be read as a picture.', refused: 'There is no camera to use here.'},
  de: {title: 'Welche Klasse ist es?', private: 'Das Modell rechnet hier, in diesem Browser; Bilder werden nirgends hingeschickt.',
       choose: 'Ein Bild wählen', camera: 'Kamera benutzen', stop: 'Kamera anhalten', loading: 'Das Modell wird geladen …',
       ready: 'Bereit.', nothing: 'Das ist nicht als Bild zu lesen.', refused: 'Hier ist keine Kamera zu benutzen.'},
};
const language = navigator.language.startsWith('de') ? 'de' : 'en', texts = TEXTS[language];
const $ = id => document.getElementById(id);
document.documentElement.lang = language;
document.title = texts.title;
for (const place of document.querySelectorAll('[data-text]')) place.textContent = texts[place.dataset.text];
$('status').textContent = texts.loading;

ort.env.wasm.wasmPaths = new URL('./', import.meta.url).href;
ort.env.wasm.numThreads = 1;  // more need headers that a simple server does not send
const about = await (await fetch('model.json')).json();
const session = await ort.InferenceSession.create('model.onnx', {executionProviders: ['wasm']});
$('status').textContent = texts.ready;

// ---- from a picture to the pixels that the network takes: one resize to a square, one crop

// Bicubic as in Pillow: when a picture shrinks, every pixel counts; whole numbers after each direction.
function weights(from, to) {
  const scale = from / to, stretch = Math.max(scale, 1), rows = [];
  const cubic = x => (x = Math.abs(x)) < 1 ? (1.5 * x - 2.5) * x * x + 1 : x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
  for (let at = 0; at < to; at++) {
    const center = (at + 0.5) * scale;
    const first = Math.max(0, Math.trunc(center - 2 * stretch + 0.5)), end = Math.min(from, Math.trunc(center + 2 * stretch + 0.5));
    const row = Array.from({length: end - first}, (_, k) => cubic((first + k - center + 0.5) / stretch));
    const sum = row.reduce((a, b) => a + b, 0);
    rows.push([first, row.map(w => w / sum)]);
  }
  return rows;
}

function resized(pixels, width, height, side) {
  const across = weights(width, side), down = weights(height, side);
  const narrow = new Uint8ClampedArray(side * height * 3), small = new Uint8ClampedArray(side * side * 3);
  for (let y = 0; y < height; y++) across.forEach(([first, row], x) => {
    for (let c = 0; c < 3; c++)
      narrow[(y * side + x) * 3 + c] = row.reduce((sum, w, k) => sum + w * pixels[(y * width + first + k) * 4 + c], 0);
  });
  down.forEach(([first, row], y) => {
    for (let x = 0; x < side; x++) for (let c = 0; c < 3; c++)
      small[(y * side + x) * 3 + c] = row.reduce((sum, w, k) => sum + w * narrow[((first + k) * side + x) * 3 + c], 0);
  });
  return small;
}

function input(source, width, height) {
  const {image_size: size, resize_to: side, margin: skip} = about;
  const canvas = new OffscreenCanvas(width, height), paint = canvas.getContext('2d', {willReadFrequently: true});
  paint.fillStyle = 'white';  // below what is transparent
  paint.fillRect(0, 0, width, height);
  paint.drawImage(source, 0, 0, width, height);
  const small = resized(paint.getImageData(0, 0, width, height).data, width, height, side);
  const planes = new Uint8Array(3 * size * size);
  for (let c = 0; c < 3; c++) for (let y = 0; y < size; y++) for (let x = 0; x < size; x++)
    planes[(c * size + y) * size + x] = small[((y + skip) * side + x + skip) * 3 + c];
  return new ort.Tensor('uint8', planes, [1, 3, size, size]);
}

async function answer(source, width, height) {
  const {probabilities} = await session.run({pixels: input(source, width, height)});
  const rows = about.classes.map((name, k) => [name, probabilities.data[k]]).sort((a, b) => b[1] - a[1]);
  $('answers').replaceChildren(...rows.slice(0, 10).map(([name, share]) => {
    const item = document.createElement('li'), bar = document.createElement('progress');
    bar.value = share;
    bar.setAttribute('aria-label', name);
    const parts = [name, bar, share.toLocaleString(language, {style: 'percent', maximumFractionDigits: 1})];
    item.append(...parts.map(part => { const cell = document.createElement('span'); cell.append(part); return cell; }));
    item.dataset.name = name;
    item.dataset.share = share;
    return item;
  }));
}

// ---- files and the camera

$('file').onchange = async () => {
  const [file] = $('file').files;
  if (!file) return;
  stop();
  try {
    const bitmap = await createImageBitmap(file);  // upright
    $('picture').src = URL.createObjectURL(file);
    $('picture').hidden = false;
    await answer(bitmap, bitmap.width, bitmap.height);
    $('status').textContent = file.name;
  } catch {
    $('answers').replaceChildren();
    $('status').textContent = texts.nothing;
  }
};

let stream = null;
function stop() {
  stream?.getTracks().forEach(track => track.stop());
  stream = null;
  $('video').hidden = true;
  $('camera').textContent = texts.camera;
}

$('camera').onclick = async () => {
  if (stream) return stop();
  try {
    stream = await navigator.mediaDevices.getUserMedia({video: {facingMode: 'environment', width: 640}});
  } catch {
    $('status').textContent = texts.refused;
    return;
  }
  $('picture').hidden = true;
  $('video').hidden = false;
  $('camera').textContent = texts.stop;
  $('video').srcObject = stream;
  await $('video').play();
  while (stream) {
    await answer($('video'), $('video').videoWidth, $('video').videoHeight);
    await new Promise(resolve => setTimeout(resolve, 100));
  }
};
