// Builds the explorers of the report: every div.explorer holds its data as
// JSON, and this script adds the controls. Nothing is fetched from anywhere.

function decode(base64, count, what) {
  const text = atob(base64);
  if (text.length !== count) {
    throw new Error(`[${what}] expected ${count} bytes but got ${text.length}`);
  }
  return Uint8Array.from(text, character => character.charCodeAt(0));
}

// Fields as whole numbers of so many bits; packed_levels.h says how they are
// written.
function unpack({order, data}, {frames, rows, cols, bits}, what) {
  const text = atob(data);
  const longest = 20, rateBits = 4;
  let next = 0, waiting = 0, count = 0;
  const take = wanted => {
    for (; count < wanted; count += 8) {
      if (next === text.length) throw new Error(`[${what}] the data end too early`);
      waiting = waiting << 8 | text.charCodeAt(next++);
    }
    count -= wanted;
    const value = waiting >>> count;
    waiting &= (1 << count) - 1;
    return value;
  };
  const levels = new Uint16Array(frames * rows * cols);
  for (let start = 0; start < levels.length; start += cols) {
    const rate = take(rateBits);
    for (let i = start; i < start + cols; ++i) {
      let ones = 0;
      while (ones < longest && take(1)) ++ones;
      const z = ones < longest ? ones << rate | take(rate) : take(bits);
      levels[i] = z & 1 ? -(z + 1) / 2 : z / 2;  // modulo 2^16
    }
  }
  if (next !== text.length) throw new Error(`[${what}] more data than expected`);
  for (let n = 0; n < order; ++n) {
    for (let i = 1; i < levels.length; ++i) {
      if (i % cols) levels[i] += levels[i - 1];
    }
    for (let i = cols; i < levels.length; ++i) {
      if (Math.floor(i / cols) % rows) levels[i] += levels[i - cols];
    }
  }
  return levels.map(level => level & ((1 << bits) - 1));
}

// ---- The two kinds of explorer ---------------------------------------------

// Pictures keep the shape of the body where both axes have one unit.
function aspectOf(x, y) {
  if (y.name === 'frame') return 1.4;  // space and time have no common length
  const physical = x.unit === y.unit && x.length && y.length;
  const ratio = physical ? Math.abs(x.length / y.length) : x.count / y.count;
  return Math.min(Math.max(ratio, 0.4), 4);
}

function buildFields(box, data, report) {
  const {rows, cols, times, bits} = data;
  const size = rows * cols;
  const x = makeAxis(data.x, cols), y = makeAxis(data.y, rows);
  const colours = readColours();
  const known = data.has_truth;
  const moves = times.length > 1;
  const shared = {x, y, aspect: aspectOf(x, y)};
  const predictionPanel = makePanel({...shared, kind: 'prediction',
      title: 'prediction', note: data.label, colours: colours.sequential});
  const truthPanel = known && makePanel({...shared, kind: 'truth', title: 'truth',
      note: data.label, colours: colours.sequential});
  const errorPanel = known && makePanel({...shared, kind: 'error', title: 'error',
      note: `prediction - truth${data.unit ? ` (${data.unit})` : ''}`,
      colours: colours.diverging});
  const panels = known ? [truthPanel, predictionPanel, errorPanel] : [predictionPanel];

  // Decoded when looked at: a page may carry many cases. Values are the truth,
  // or the prediction where no truth is known.
  function load(index) {
    const {name, low, high, error, sensors, ...packed} = data.cases[index];
    const shape = {frames: times.length, rows, cols, bits};
    const levels = what => unpack(packed[what], shape, `${name}, ${what}`);
    const values = levels('values');
    const difference = known ? levels('difference') : null;
    const last = (1 << bits) - 1;
    return {
      low, high, error,
      sensors: t => sensors ? sensors[t] : [],
      label: data.quantity ? data.label : name,
      value: i => low + (high - low) * values[i] / last,
      difference: i => known ? error * (2 * difference[i] / last - 1) : 0,
      valueColour: i => values[i] >> (bits - 8),
      differenceColour: i => difference[i] >> (bits - 8),
    };
  }

  const select = makeSelect(
      'case', data.cases.map(c => c.name), () => report(chooseCase));
  const play = element('button', {class: 'play', type: 'button'}, 'Play');
  const slider = element('input', {class: 'time', type: 'range', min: 0,
      max: times.length - 1, step: 1, 'aria-label': data.time_label});
  // The first frame is often the given one, without any error to look at.
  slider.value = times.length >> 1;
  const clock = element('span', {class: 'now'});
  const sensed = data.cases.some(one => one.sensors);
  const sensorSwitch = element('input', {class: 'sensors', type: 'checkbox'});
  sensorSwitch.checked = true;
  sensorSwitch.addEventListener('change', () => showSensors());
  const sensorCount = element('span');
  const readout = element('output', {class: 'readout'});
  const where = element('span');
  const chart = element('canvas', {class: 'chart', role: 'img',
      'aria-label': 'the marked node over time'});
  const time = splitLabel(data.time_label);
  let current;

  function chooseCase() {
    current = load(Number(select.value));
    for (const panel of panels) {
      if (panel === errorPanel) {
        panel.setRange(-current.error, current.error);
      } else {
        panel.setRange(current.low, current.high);
        panel.setNote(current.label);
      }
    }
    showTime();
  }

  // Over truth and error, as in the figures: the prediction is left to be seen.
  function showSensors() {
    const places = current.sensors(Number(slider.value));
    const shown = sensorSwitch.checked ? places : [];
    for (const panel of panels) {
      if (!known || panel !== predictionPanel) panel.showSensors(shown);
    }
    sensorCount.textContent = `sensors (${places.length / 2})`;
  }

  function showTime() {
    const start = Number(slider.value) * size;
    const {low, high, value, difference} = current;
    const scale = high > low ? 255 / (high - low) : 0;
    const clamp = level => Math.min(Math.max(Math.round(level), 0), 255);
    paint(predictionPanel.canvas, i => colours.sequential[
        clamp((value(start + i) + difference(start + i) - low) * scale)]);
    if (known) {
      paint(truthPanel.canvas, i => colours.sequential[current.valueColour(start + i)]);
      paint(errorPanel.canvas, i => colours.diverging[current.differenceColour(start + i)]);
    }
    const now = String(+times[slider.value].toPrecision(6));
    clock.textContent = `${time.name} ${now}${time.unit && ' '}${time.unit}`;
    slider.setAttribute('aria-valuetext', clock.textContent);
    if (sensed) showSensors();
    pointer.show();
  }

  function showNode() {
    const {row, col, pinned} = pointer.cursor;
    const now = Number(slider.value), node = row * cols + col;
    const values = times.map((_, t) => current.value(t * size + node));
    const differences = times.map((_, t) => current.difference(t * size + node));
    const prediction = values.map((value, t) => value + differences[t]);
    const place = `${x.name} = ${x.text(col)}, ${y.name} = ${y.text(row)}`;
    const predicted = `prediction ${prediction[now].toPrecision(5)}`;
    readout.textContent = `${place}: ` + (known
        ? `truth ${values[now].toPrecision(5)}, ${predicted}, ` +
          `error ${differences[now].toExponential(1)}`
        : predicted);
    Object.assign(readout.dataset,
        {row, col, time: times[now], prediction: prediction[now]},
        known && {truth: values[now], error: differences[now]});
    where.textContent = place + (pinned ? ' (pinned)' : '');
    if (!moves) return;
    drawChart(chart, {times, now, curves: known ? [values, prediction] : [prediction],
        xLabel: data.time_label, yLabel: current.label,
        span: current.high - current.low});
  }
  const pointer = makeCursor(panels, rows, cols, showNode);

  let timer = null;
  function setPlaying(playing) {
    clearInterval(timer);
    // About eight seconds for all; slow steps for who asked for less motion.
    const calm = matchMedia('(prefers-reduced-motion: reduce)').matches;
    const pause = calm ? 600 : Math.min(Math.max(8000 / times.length, 40), 400);
    timer = playing ? setInterval(() => {
      slider.value = (Number(slider.value) + 1) % times.length;
      showTime();
    }, pause) : null;
    play.textContent = playing ? 'Pause' : 'Play';
    readout.setAttribute('aria-live', playing ? 'off' : 'polite');
  }
  play.addEventListener('click', () => setPlaying(timer === null));
  slider.addEventListener('input', () => { setPlaying(false); showTime(); });

  chooseCase();
  box.append(
      element('div', {class: 'controls'}, select,
          ...(moves ? [play, slider, clock] : []),
          ...(sensed ? [element('label', {}, sensorSwitch, ' ', sensorCount)] : [])),
      element('div', {class: 'panels'}, ...panels.map(panel => panel.box)),
      readout,
      element('p', {class: 'hint'},
          'Hover or use the arrow keys to read a node; click to pin it.'));
  if (!moves) return;  // one frame has no history
  box.append(
      element('div', {class: 'legend'}, element('b', {}, where),
          ...(known ? [element('span', {class: 'key truth-key'}, 'truth')] : []),
          element('span', {class: 'key prediction-key'}, 'prediction')),
      chart);
  new ResizeObserver(showNode).observe(chart);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', showNode);
}

function buildMaps(box, data, report) {
  const {rows, cols} = data;
  const x = makeAxis(data.x, cols), y = makeAxis(data.y, rows);
  const colours = readColours();
  const kHidden = 255;
  const panel = makePanel({x, y, aspect: 1, ticked: true, kind: 'map',
      title: data.label, note: '', colours: colours.sequential});
  const readout = element('output', {class: 'readout'});
  const swatch = element('span', {class: 'swatch'});
  swatch.style.borderColor = `rgb(${colours.none})`;
  const hiddenKey = element('div', {class: 'hint'}, swatch, 'hidden by the mask');
  const selects = data.choices.map(
      choice => makeSelect(choice.name, choice.values, () => report(chooseMap)));
  let current;

  function chooseMap() {
    const index = data.choices.reduce((sum, choice, i) =>
        sum * choice.values.length + Number(selects[i].value), 0);
    const {low, high, data: packed} = data.maps[index];
    const levels = decode(packed, rows * cols, `map ${index}`);
    current = {levels, value: i => low + (high - low) * levels[i] / 254};
    paint(panel.canvas, i => levels[i] === kHidden
        ? colours.none : colours.sequential[Math.round(levels[i] * 255 / 254)]);
    panel.setRange(low, high);
    hiddenKey.style.visibility = levels.includes(kHidden) ? 'visible' : 'hidden';
    pointer.show();
  }

  function showNode() {
    const {row, col} = pointer.cursor;
    const node = row * cols + col;
    const hidden = current.levels[node] === kHidden;
    readout.textContent = `${y.name} ${y.text(row)}, ${x.name} ${x.text(col)}: ` +
        (hidden ? 'hidden by the mask' : current.value(node).toPrecision(3));
    Object.assign(readout.dataset,
        {row, col, value: hidden ? 'hidden' : current.value(node)});
  }
  const pointer = makeCursor([panel], rows, cols, showNode);

  chooseMap();
  box.append(
      element('div', {class: 'controls'}, ...data.choices.map((choice, i) =>
          element('label', {}, `${choice.name} `, selects[i]))),
      element('div', {class: 'panels'}, panel.box,
          element('div', {class: 'side'}, readout, hiddenKey)));
}

// A broken explorer says so in its place and leaves the rest of the page alone.
const builders = {fields: buildFields, maps: buildMaps};
for (const box of document.querySelectorAll('.explorer')) {
  const message = element('p', {class: 'missing', hidden: ''});
  box.append(message);
  const report = action => {
    message.hidden = true;
    try {
      action();
    } catch (error) {
      message.textContent = `This explorer could not be shown: ${error.message}`;
      message.hidden = false;
    }
  };
  report(() => {
    const build = builders[box.dataset.kind];
    if (!build) throw new Error(`unknown kind "${box.dataset.kind}"`);
    build(box, JSON.parse(box.querySelector('script').textContent), report);
  });
}
