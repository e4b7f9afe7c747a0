// Pictures of fields with their axes and colour bars, and curves: what the pages
// of runs and of the server are made of.

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

// ---- Numbers and axes ------------------------------------------------------

// "x (m)" -> {name: "x", unit: "m"}
function splitLabel(label) {
  const match = /^(.*?)\s*\(([^()]*)\)\s*$/.exec(label);
  return match ? {name: match[1], unit: match[2]} : {name: label, unit: ''};
}

// Writes numbers that lie `step` apart with just enough decimals to tell them
// apart: 0.04 -> 2, 0.25 -> 2, 4 -> 0. `largest` decides on the exponent form.
function formatter(step, largest) {
  if (!(step > 0)) return value => String(+value.toPrecision(4));
  let digits = Math.max(0, -Math.floor(Math.log10(step)));
  const scaled = step * 10 ** digits;
  if (Math.abs(scaled - Math.round(scaled)) > 1e-6 * scaled) ++digits;
  if (largest >= 1e6 || (largest < 0.01 && digits > 4)) {
    return value => value === 0 ? '0' : value.toExponential(1);
  }
  // Rounding must not leave "-0.00".
  return value => value.toFixed(Math.min(digits, 12)).replace(/^-(0\.?0*)$/, '$1');
}

function formatAll(values) {
  const step = Math.abs(values[1] - values[0]);
  return values.map(formatter(step, Math.max(...values.map(Math.abs))));
}

// Round numbers between low and high, about `count` of them.
function niceTicks(low, high, count, smallestStep = 0) {
  const rough = Math.max((high - low) / count, smallestStep);
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough) + 1e-9);
  const step = power * [1, 2, 5, 10].find(k => k * power >= rough * 0.999);
  const ticks = [];
  const end = Math.floor(high / step + 1e-9);
  for (let k = Math.ceil(low / step - 1e-9); k <= end; ++k) ticks.push(k * step);
  return ticks;
}

// `count` nodes from axis.first to axis.last, a node in the middle of its cell.
function makeAxis(axis, count) {
  const length = axis.last - axis.first;
  const step = Math.abs(length) / Math.max(count - 1, 1);
  const largest = Math.max(Math.abs(axis.first), Math.abs(axis.last));
  const format = formatter(step, largest);
  return {
    ...splitLabel(axis.label), ...axis, count, length, step,
    text: k => format(axis.first + length * k / Math.max(count - 1, 1)),
    fraction: value =>
        ((length ? (value - axis.first) / length * (count - 1) : 0) + 0.5) / count,
  };
}

// Fields show the two ends; maps show round ticks.
function drawAxis(axis, side, ticked) {
  const low = Math.min(axis.first, axis.last);
  const high = Math.max(axis.first, axis.last);
  const values = ticked ? niceTicks(low, high, 8, axis.step)
                        : axis.length ? [axis.first, axis.last] : [axis.first];
  const texts = ticked ? formatAll(values) : values.map(v => String(+v.toPrecision(4)));
  const strip = element('div', {class: `${side}-axis${ticked ? ' ticked' : ''}`},
                        element('span', {class: 'name'}, axis.label));
  values.forEach((value, i) => {
    const tick = element('span', {class: 'tick'}, texts[i]);
    tick.style[side === 'x' ? 'left' : 'top'] = `${100 * axis.fraction(value)}%`;
    strip.append(tick);
  });
  if (side === 'y') {
    const width = Math.max(...texts.map(text => text.length)) + 1.2;
    strip.style.width = `calc(${width}ch + 1.3em)`;
  }
  return strip;
}

// ---- One picture with its axes and colour bar ------------------------------

function readColours() {
  const maps = JSON.parse(document.getElementById('colour-maps').textContent);
  const pack = hex => {
    const rgb = parseInt(hex.slice(1), 16);
    return [rgb >> 16, (rgb >> 8) & 255, rgb & 255];
  };
  return {sequential: maps.sequential.map(pack),
          diverging: maps.diverging.map(pack), none: pack(maps.none)};
}

// One canvas pixel per node; the style sheet enlarges them unblurred.
function paint(canvas, colourOf) {
  const image = new ImageData(canvas.width, canvas.height);
  for (let i = 0; i < canvas.width * canvas.height; ++i) {
    const [r, g, b] = colourOf(i);
    image.data.set([r, g, b, 255], 4 * i);
  }
  canvas.getContext('2d').putImageData(image, 0, 0);
}

function makePanel({kind, title, note, x, y, colours, aspect, ticked}) {
  const canvas = element('canvas', {
    class: kind, width: x.count, height: y.count, tabindex: 0, role: 'img',
    'aria-label': `${title}: arrow keys move the marked node, Enter pins it`});
  canvas.style.aspectRatio = aspect;
  const marker = element('div', {class: 'marker'});
  marker.style.width = `${100 / x.count}%`;
  marker.style.height = `${100 / y.count}%`;
  const rings = element('div', {class: 'rings'});
  const bar = element('canvas', {width: colours.length, height: 1});
  paint(bar, i => colours[i]);
  const numbers = element('div', {class: 'numbers'});
  const noteText = element('span', {}, note);
  const box = element('div', {class: 'panel'},
      element('div', {class: 'title'}, element('b', {}, title), ' ', noteText),
      drawAxis(y, 'y', ticked),
      element('div', {class: 'field'}, canvas, rings, marker),
      drawAxis(x, 'x', ticked),
      element('div', {class: 'bar'}, bar, numbers));
  return {
    box, canvas,
    mark({row, col, pinned}) {
      marker.style.left = `${100 * col / x.count}%`;
      marker.style.top = `${100 * row / y.count}%`;
      marker.classList.toggle('pinned', pinned);
    },
    // Columns and rows, one after the other; 0 is the middle of a node.
    showSensors(places) {
      rings.replaceChildren();
      for (let k = 0; k < places.length; k += 2) {
        const ring = element('span');
        ring.style.left = `${100 * (places[k] + 0.5) / x.count}%`;
        ring.style.top = `${100 * (places[k + 1] + 0.5) / y.count}%`;
        rings.append(ring);
      }
    },
    setNote(text) { noteText.textContent = text; },
    setRange(low, high) {
      const texts = formatAll([low, (low + high) / 2, high]);
      numbers.replaceChildren(...texts.map(text => element('span', {}, text)));
    },
  };
}

// The marked node, shared by all panels. It stays when the mouse leaves, so
// that the slider can be moved while a node is watched; `changed` redraws.
function makeCursor(panels, rows, cols, changed) {
  const cursor = {row: rows >> 1, col: cols >> 1, pinned: false};
  const show = () => {
    panels.forEach(panel => panel.mark(cursor));
    changed();
  };
  const moveTo = (row, col) => {
    cursor.row = Math.min(Math.max(row, 0), rows - 1);
    cursor.col = Math.min(Math.max(col, 0), cols - 1);
    show();
  };
  const moveToPoint = (canvas, x, y) => {
    const {clientWidth, clientHeight} = canvas;
    if (x < 0 || y < 0 || x > clientWidth || y > clientHeight) return;
    moveTo(Math.floor(y / clientHeight * rows), Math.floor(x / clientWidth * cols));
  };
  const onTouch = event => {
    if (cursor.pinned) return;
    const box = event.target.getBoundingClientRect();
    const {clientX, clientY} = event.touches[0];
    moveToPoint(event.target, clientX - box.left, clientY - box.top);
  };
  const arrows = {ArrowUp: [-1, 0], ArrowDown: [1, 0],
                  ArrowLeft: [0, -1], ArrowRight: [0, 1]};
  for (const {canvas} of panels) {
    canvas.addEventListener('mousemove', event => {
      if (!cursor.pinned) moveToPoint(canvas, event.offsetX, event.offsetY);
    });
    canvas.addEventListener('touchstart', onTouch, {passive: true});
    canvas.addEventListener('touchmove', onTouch, {passive: true});
    canvas.addEventListener('click', event => {
      cursor.pinned = !cursor.pinned;
      moveToPoint(canvas, event.offsetX, event.offsetY);
      show();
    });
    canvas.addEventListener('keydown', event => {
      if (arrows[event.key]) {
        const [down, right] = arrows[event.key];
        moveTo(cursor.row + down, cursor.col + right);
      } else if (event.key === 'Enter') {
        cursor.pinned = !cursor.pinned;
        show();
      } else {
        return;
      }
      event.preventDefault();  // the arrows would scroll the page
    });
  }
  return {cursor, show};
}

function makeSelect(name, values, changed) {
  const select = element('select', {class: name}, ...values.map(
      (value, i) => element('option', {value: i}, value)));
  select.addEventListener('change', changed);
  return select;
}

// ---- Line chart of one node over time --------------------------------------

// `curves`: the truth, if it is known, and the prediction behind it; `range`, if
// it is given, is that of the values. Returns which time and value a place of
// the canvas is.
function drawChart(canvas, {times, now, curves, xLabel, yLabel, span, range}) {
  const width = canvas.clientWidth, height = canvas.clientHeight;
  if (!width) return null;  // inside a closed <details>
  // At least two pixels per point, so that the chart prints sharply.
  const ratio = Math.max(window.devicePixelRatio || 1, 2);
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const pen = canvas.getContext('2d');
  pen.scale(ratio, ratio);
  pen.font = `12px ${getComputedStyle(canvas).fontFamily}`;

  let low = range ? range[0] : Math.min(...curves.flat());
  let high = range ? range[1] : Math.max(...curves.flat());
  // A constant node would otherwise fill the chart with rounding noise.
  const pad = Math.max(0.06 * (high - low), 0.01 * span, 1e-12 * Math.abs(high));
  low -= pad || 1;
  high += pad || 1;
  const first = times[0], last = times[times.length - 1];
  const ticks = niceTicks(low, high, 6);
  const texts = formatAll(ticks);
  const left = 30 + Math.max(...texts.map(text => pen.measureText(text).width));
  const right = width - 14, top = 8, bottom = height - 40;
  const toX = t => left + (right - left) * (t - first) / (last - first || 1);
  const toY = v => bottom - (bottom - top) * (v - low) / (high - low);
  const line = (points, colour, thickness, dashes = []) => {
    pen.beginPath();
    points.forEach(([x, y]) => pen.lineTo(x, y));
    pen.strokeStyle = colour;
    pen.lineWidth = thickness;
    pen.setLineDash(dashes);
    pen.stroke();
  };

  const style = getComputedStyle(canvas);
  const [ink, soft, rule, edge, predicted] =
      ['ink', 'soft', 'rule', 'edge', 'prediction'].map(
          name => style.getPropertyValue(`--${name}`));
  pen.fillStyle = soft;
  pen.textAlign = 'right';
  pen.textBaseline = 'middle';
  ticks.forEach((tick, i) => {
    line([[left, toY(tick)], [right, toY(tick)]], rule, 1);
    pen.fillText(texts[i], left - 6, toY(tick));
  });
  pen.textAlign = 'center';
  pen.textBaseline = 'top';
  const timeTicks = niceTicks(first, last, Math.max(2, Math.min(10, width / 70)));
  formatAll(timeTicks).forEach((text, i) => {
    line([[toX(timeTicks[i]), bottom], [toX(timeTicks[i]), bottom + 4]], edge, 1);
    pen.fillText(text, toX(timeTicks[i]), bottom + 7);
  });
  pen.fillText(xLabel, (left + right) / 2, height - 15);
  pen.save();
  pen.translate(2, (top + bottom) / 2);
  pen.rotate(-Math.PI / 2);
  pen.fillText(yLabel, 0, 0);
  pen.restore();
  line([[left, top], [left, bottom], [right, bottom]], edge, 1);

  line([[toX(times[now]), top], [toX(times[now]), bottom]], edge, 1);
  // Orange dashes on black: told apart by the colour-blind and on paper.
  const looks = [[ink, []], [predicted, [6, 4]]].slice(-curves.length);
  for (const [k, [colour, dashes]] of looks.entries()) {
    const series = curves[k];
    line(times.map((t, i) => [toX(t), toY(series[i])]), colour, 1.8, dashes);
    pen.beginPath();
    pen.arc(toX(times[now]), toY(series[now]), 3.2, 0, 2 * Math.PI);
    pen.fillStyle = colour;
    pen.fill();
  }
  return (x, y) => [first + (x - left) / (right - left) * (last - first),
                    low + (bottom - y) / (bottom - top) * (high - low)];
}
