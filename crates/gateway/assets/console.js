// Keys, and moments that stay up to date. Everything here can also be done without it.
//
// A key never answers a question that was not on the screen a moment before it was pressed.
(() => {
  'use strict';

  // A key that was meant for the page before must not answer the question on this one.
  const SETTLE_MS = 600;
  const AGES_EVERY_MS = 10000;

  const root = document.documentElement;
  root.classList.add('js');
  const title = document.title;
  let shown = performance.now();
  let current = document.querySelector('#question')?.dataset.question;

  const all = (what) => Array.from(document.querySelectorAll(what));
  const isSeen = (element) => element.getClientRects().length > 0;

  function isTyping(element) {
    return element.closest('input:not([type=radio]):not([type=checkbox]), textarea, select') !== null;
  }

  // In the queue, the next question is opened, so that an answer is for what is seen. In a list, the next
  // entry gets the focus.
  function move(step) {
    const queue = all('.queue a');
    if (queue.length > 0) {
      const at = queue.findIndex((link) => link.getAttribute('aria-current') === 'true');
      const next = queue[at < 0 ? 0 : at + step];
      if (next && next.getAttribute('aria-current') !== 'true') location.assign(next.href);
      return;
    }
    const rows = all('.rows a.call, .tools summary').filter(isSeen);
    const at = rows.indexOf(document.activeElement);
    const next = rows[at < 0 ? 0 : at + step];
    if (next) next.focus();
  }

  function press(key) {
    const button = document.querySelector(`#question [data-key="${key}"]`);
    if (!button || !isSeen(button) || performance.now() - shown < SETTLE_MS) return false;
    // Another entry of the queue has the focus: the key may be meant for that one.
    const focused = document.activeElement.closest('.queue a');
    if (focused && focused.getAttribute('aria-current') !== 'true') return false;
    if (document.querySelector('#state .over')) return false;
    button.click();
    const field = button.closest('details[open]')?.querySelector('textarea, input:not([type=hidden])');
    if (field) field.focus();
    return true;
  }

  document.addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.repeat || event.isComposing) return;
    if (event.altKey || event.ctrlKey || event.metaKey || isTyping(event.target)) return;
    if (event.key === 'j') move(1);
    else if (event.key === 'k') move(-1);
    else if (event.key === 'Enter' && document.activeElement === document.body) {
      const chosen = document.querySelector('.queue a[aria-current="true"], .queue a');
      if (!chosen) return;
      location.assign(chosen.href);
    } else if (!['a', 'd', 'r', 'l'].includes(event.key) || !press(event.key)) return;
    event.preventDefault();
  });

  document.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') return;
    const open = event.target.closest('details.answer[open]');
    if (open) {
      open.open = false;
      open.querySelector('summary').focus();
    }
  });

  // One way to answer at a time.
  document.addEventListener('toggle', (event) => {
    if (!event.target.matches('details.answer') || !event.target.open) return;
    for (const other of all('details.answer[open]')) if (other !== event.target) other.open = false;
  }, true);

  function age(at) {
    const passed = Date.now() - at;
    const seconds = Math.floor(Math.abs(passed) / 1000);
    if (seconds < 5) return 'now';
    const long = seconds < 60 ? `${seconds} s`
      : seconds < 3600 ? `${Math.floor(seconds / 60)} min`
      : seconds < 86400 ? `${Math.floor(seconds / 3600)} h`
      : `${Math.floor(seconds / 86400)} d`;
    return passed >= 0 ? `${long} ago` : `in ${long}`;
  }

  function refreshAges() {
    for (const time of all('time[datetime]:not(.fixed)')) {
      const at = Date.parse(time.dateTime);
      if (!Number.isNaN(at)) {
        const now = age(at);
        if (time.textContent !== now) time.textContent = now;
      }
    }
  }

  // Moments are in UTC; whoever points at one reads it in their own time.
  function localise() {
    for (const time of all('time[datetime]')) {
      const at = new Date(time.dateTime);
      if (!Number.isNaN(at.getTime())) time.title = at.toLocaleString();
    }
  }

  function countWaiting() {
    const waiting = Number(document.querySelector('#waiting')?.dataset.waiting ?? 0);
    document.title = waiting > 0 ? `(${waiting}) ${title}` : title;
  }

  // Elements load themselves again when the feed says that something has changed: one request at a time,
  // and once more if something changed meanwhile. An element is known by its id, because it may be replaced.
  const REFRESH_PAUSE_MS = 250;
  const isStale = new Map();

  async function refresh(id) {
    if (isStale.has(id)) {
      isStale.set(id, true);
      return;
    }
    try {
      do {
        isStale.set(id, false);
        const element = document.getElementById(id);
        if (!element?.dataset.on) return;
        const select = element.dataset.select ?? `#${id}`;
        await htmx.ajax('GET', element.dataset.refresh, { source: element, target: element, select, swap: 'outerMorph' });
        await new Promise((go) => setTimeout(go, REFRESH_PAUSE_MS));
      } while (isStale.get(id));
    } finally {
      isStale.delete(id);
    }
  }

  for (const what of ['calls', 'approvals']) {
    document.getElementById('feed')?.addEventListener(what, () => {
      for (const element of all(`[data-on="${what}"]`)) refresh(element.id);
    });
  }

  document.addEventListener('htmx:after:swap', (event) => {
    const question = document.querySelector('#question')?.dataset.question;
    if (question !== current) shown = performance.now();
    current = question;
    countWaiting();
    localise();
  });
  // The session has ended while the page was open.
  document.addEventListener('htmx:sse:error', (event) => {
    if (event.detail?.status === 401) location.assign('/login');
  });

  setInterval(refreshAges, AGES_EVERY_MS);
  countWaiting();
  localise();
})();
