'use strict';
// Comfort only: everything can be read without it. Remembers nothing and asks for nothing.
(() => {
  const each = (selector, act, root = document) => root.querySelectorAll(selector).forEach(act);

  // Heads of tables become buttons that sort: figures by their worth, words as words.
  const units = { ns: 1, µs: 1e3, ms: 1e6, s: 1e9 };
  ['', 'K', 'M', 'G'].forEach((prefix, power) => {
    const small = prefix.toLowerCase().replace(/[mg]/, prefix);
    units[prefix + (prefix && 'i') + 'B'] = 1024 ** power;
    for (const unit of ['/s', 'B/s', 'b']) units[small + unit] = 1000 ** power;
  });
  const worth = (text) => {
    const found = text.match(/^[±≥≤<> ]*(-?[\d.]+)\s*([^\d\s]*)/);
    if (!found) return text;
    // "86.5 to 121 µs" has its unit at the end.
    const unit = found[2] === 'to' ? text.split(' ').pop() : found[2];
    return Number(found[1]) * (units[unit] ?? 1);
  };
  const key = (row, column) => worth(row.cells[column]?.textContent.trim() ?? '');
  const before = (a, b) => {
    const gaps = (a === '' || a === '–') - (b === '' || b === '–');
    if (gaps) return [gaps, true];
    if (typeof a === 'number' && typeof b === 'number') return [a - b, false];
    return [String(a).localeCompare(String(b), 'en', { numeric: true }), false];
  };
  const sort = (table, head, column) => {
    const up = head.getAttribute('aria-sort') !== 'ascending';
    each('thead th[aria-sort]', (other) => other.removeAttribute('aria-sort'), table);
    head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
    const body = table.tBodies[0];
    const rows = Array.from(body.rows, (row) => [key(row, column), row]);
    rows.sort(([a], [b]) => {
      const [order, fixed] = before(a, b);
      return fixed || up ? order : -order;
    });
    body.append(...rows.map(([, row]) => row));
  };
  each('table[data-sort]', (table) => {
    each('thead th', (head) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener('click', () => sort(table, head, head.cellIndex));
    }, table);
  });

  // What a mark says of itself, for mouse and finger; its series stands out meanwhile. Without this
  // script browsers show the title.
  each('.chart :not(svg) > title', (title) => {
    const mark = title.parentNode;
    const series = mark.closest('[data-series]')?.dataset.series;
    mark.dataset.label = [series, title.textContent].filter(Boolean).join(': ');
    title.remove();
  });
  const nameOf = (mark) => mark.closest('[data-series]')?.dataset.series;
  const tip = document.createElement('div');
  tip.id = 'tip';
  tip.hidden = true;
  document.body.append(tip);
  const highlight = (chart, name) => {
    each('.on', (mark) => mark.classList.remove('on'), chart);
    each('[data-series],[data-key]', (mark) => {
      const own = mark.dataset.series === name || mark.dataset.key === name;
      mark.classList.toggle('on', own);
    }, chart);
    chart.classList.toggle('hl', chart.querySelector('[data-series].on') !== null);
  };
  const quiet = () => {
    tip.hidden = true;
    each('.chart.hl', (chart) => chart.classList.remove('hl'));
  };
  document.addEventListener('pointerover', (event) => {
    const mark = event.target.closest?.('.chart [data-label], .chart [data-key]');
    if (!mark) return quiet();
    highlight(mark.closest('.chart'), mark.dataset.key ?? nameOf(mark));
    tip.hidden = !mark.dataset.label;
    if (tip.hidden) return;
    tip.textContent = mark.dataset.label;
    const box = mark.getBoundingClientRect();
    const left = Math.min(box.right + 8, innerWidth - tip.offsetWidth - 8);
    tip.style.left = `${Math.max(8, left)}px`;
    const below = box.bottom + 6;
    const fits = below + tip.offsetHeight < innerHeight;
    tip.style.top = `${fits ? below : Math.max(8, box.top - tip.offsetHeight - 6)}px`;
  });
  addEventListener('scroll', quiet, { passive: true });
  addEventListener('keydown', (event) => { if (event.key === 'Escape') quiet(); });

  // Light or dark against the system's choice, until the page is left.
  const root = document.documentElement;
  const theme = document.createElement('button');
  theme.id = 'theme';
  theme.type = 'button';
  const isDark = () => (root.dataset.theme
    ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light')) === 'dark';
  const label = () => { theme.textContent = isDark() ? 'Light colours' : 'Dark colours'; };
  theme.addEventListener('click', () => {
    root.dataset.theme = isDark() ? 'light' : 'dark';
    label();
  });
  label();
  document.querySelector('header').append(theme);

  // Paper cannot be opened: tables that are meant for it open themselves while it is made.
  let opened = [];
  addEventListener('beforeprint', () => {
    opened = Array.from(document.querySelectorAll('details.paper:not([open])'));
    opened.forEach((box) => { box.open = true; });
  });
  addEventListener('afterprint', () => {
    opened.forEach((box) => { box.open = false; });
    opened = [];
  });

  root.dataset.ready = '1';
})();
