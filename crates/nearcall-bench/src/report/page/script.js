'use strict';
// Comfort only: everything can be read without it. Remembers nothing and asks for nothing.
(() => {
  const each = (selector, act, root = document) => root.querySelectorAll(selector).forEach(act);

  // Heads of tables become buttons that sort.
  const key = (row, column) => {
    const cell = row.cells[column];
    if (!cell) return '';
    return cell.dataset.v === undefined ? cell.textContent.trim() : Number(cell.dataset.v);
  };
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

  document.documentElement.dataset.ready = '1';
})();
