// A page of `reprise dev`: it is loaded again when files change. Stylesheets are replaced without that.
(() => {
  if (window.repriseListens) return;
  window.repriseListens = true;
  let after = document.currentScript.dataset.after, source;
  const style = (link) => {
    const url = new URL(link.href), next = link.cloneNode();
    if (url.origin !== location.origin) return;
    url.searchParams.set('reprise-dev', after);
    next.href = url.href;
    next.onload = next.onerror = () => link.remove();
    link.after(next);
  };
  const listen = () => {
    source = new EventSource('/.reprise/changes?after=' + after);
    source.addEventListener('page', () => location.reload());
    source.addEventListener('style', (event) => {
      after = event.data;
      document.querySelectorAll('link[rel~="stylesheet"][href]').forEach(style);
    });
  };
  // A browser has six connections to a server, for all its tabs: those that nobody sees have none.
  const follow = () => { source?.close(); document.hidden || listen(); };
  document.addEventListener('visibilitychange', follow);
  addEventListener('pagehide', () => source?.close());
  addEventListener('pageshow', (event) => event.persisted && follow());
  follow();
})();
