//! The page in a real browser: nothing runs, nothing is asked for, every chart is seen, also on a phone.
//!
//! What is to be seen there must be looked at from outside, since the page itself runs nothing: another page holds it in
//! frames. That page also asks for an address, to show that such a request would be noticed.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::process::Command;

use super::hostile::poison;
use super::*;
use crate::support::skip;

/// Puts each page into a frame of each width, waits for it, and writes down what is to be seen.
const LOOK: &str = r#"<!doctype html><meta charset="utf-8"><body><img src="http://control.invalid/"><pre id="seen"></pre><script>
const pages = PAGES, widths = [320, 390, 768, 1280], seen = [];
(async () => {
  for (const page of pages) for (const width of widths) {
    const frame = document.createElement('iframe');
    frame.style = `width:${width}px;height:900px;border:0`;
    frame.src = page;
    await new Promise(done => { frame.onload = done; document.body.append(frame); });
    const inner = frame.contentDocument;
    inner.querySelectorAll('details').forEach(d => d.open = true);
    const charts = [...inner.querySelectorAll('svg.chart')].filter(c => c.getBoundingClientRect().height > 0);
    const images = [...inner.images];
    await Promise.all(images.map(i => i.decode().catch(() => 0)));
    const sizes = charts.flatMap(c => [...c.querySelectorAll('text')].map(t =>
      parseFloat(frame.contentWindow.getComputedStyle(t).fontSize) * c.getBoundingClientRect().width / c.viewBox.baseVal.width));
    const texts = [...inner.querySelectorAll('p,td,th,li,summary,figcaption,dd,code')].map(t =>
      parseFloat(frame.contentWindow.getComputedStyle(t).fontSize));
    const outside = charts.flatMap(c => { const box = c.getBoundingClientRect(); return [...c.querySelectorAll('text')].filter(t => {
      const b = t.getBoundingClientRect(); return b.left < box.left - 2 || b.right > box.right + 2 }).map(t => t.textContent) });
    seen.push({ page, width, overflow: inner.documentElement.scrollWidth - inner.documentElement.clientWidth,
      charts: charts.length, named: charts.filter(c => c.querySelector('title').textContent && c.querySelector('desc').textContent
        && c.getAttribute('aria-labelledby').split(' ').every(id => inner.querySelectorAll('#' + id).length == 1)).length,
      smallest: Math.min(...sizes, ...texts), scripts: inner.scripts.length, images: images.length,
      broken: images.filter(i => !i.naturalWidth).length, outside, title: inner.title });
    frame.remove();
  }
  document.getElementById('seen').textContent = JSON.stringify(seen);
})();
</script>"#;

fn browser() -> Option<&'static str> {
    let runs = |name: &&str| {
        let version = Command::new(name)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        version.is_ok_and(|status| status.success())
    };
    ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(runs)
}

/// What became of a page.
struct Opened {
    dom: String,
    /// What the console said.
    console: Vec<String>,
    /// Requests that any page made; the browser has some of its own.
    requests: Vec<String>,
}

/// Opens a file in the browser, without a network.
#[track_caller]
fn opened(browser: &str, place: &Path, file: &Path) -> Opened {
    let log = place.join("net.json");
    let mut command = Command::new(browser);
    command
        .args([
            "--headless",
            "--disable-gpu",
            "--no-first-run",
            "--disable-dev-shm-usage",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ])
        .args([
            "--allow-file-access-from-files",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        ])
        .args([
            "--enable-logging=stderr",
            "--v=0",
            "--virtual-time-budget=60000",
            "--dump-dom",
        ])
        .arg(format!("--log-net-log={}", log.display()))
        .arg(format!(
            "--user-data-dir={}",
            place.join("profile").display()
        ))
        .arg(format!("file://{}", file.display()));
    if rustix::process::geteuid().is_root() {
        command.arg("--no-sandbox");
    }
    let run = run(command);
    assert_eq!(run.status.code(), Some(0), "{run}");
    let said = run.err.lines().filter(|line| line.contains("CONSOLE"));
    let log = fs::read_to_string(log).expect("the log of requests");
    let requests = log.lines().filter(|line| {
        let initiator = line.split("\"initiator\":\"").nth(1);
        line.contains("\"url\":\"http")
            && initiator.is_some_and(|i| !i.starts_with("not an origin"))
    });
    Opened {
        console: said.map(str::to_owned).collect(),
        requests: requests.map(str::to_owned).collect(),
        dom: run.out.clone(),
    }
}

#[test]
fn pages_are_whole_quiet_and_fit_a_phone_in_a_real_browser() {
    let Some(browser) = browser() else {
        return skip("there is no chromium; install it with apt-get install chromium");
    };
    let place = place();
    let dir = place.path();
    // Whatever a page asked for would come here.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let evil = format!(
        "</style><script>document.title='owned';fetch('http://127.0.0.1:{port}/')</script><img src=http://127.0.0.1:{port}/ onerror=alert(1)>\""
    );
    fs::write(dir.join("good.html"), page(&one_of_each())).unwrap();
    let bad: Vec<_> = one_of_each()
        .iter()
        .enumerate()
        .map(|(i, path)| {
            let mut document = json(path);
            poison(&mut document, &evil);
            document["label"] = evil.as_str().into();
            saved(dir, &format!("bad/{i}.json"), &document)
        })
        .collect();
    fs::write(dir.join("bad.html"), page(&bad)).unwrap();
    let look = dir.join("look.html");
    fs::write(&look, LOOK.replace("PAGES", "['good.html', 'bad.html']")).unwrap();

    let Opened {
        dom,
        console,
        requests,
    } = opened(browser, dir, &look);
    assert!(
        !requests.is_empty(),
        "the request of the page around must be noticed"
    );
    for said in console.iter().chain(&requests) {
        assert!(said.contains("control.invalid"), "{said}");
    }
    let seen = dom
        .split("<pre id=\"seen\">")
        .nth(1)
        .and_then(|rest| rest.split("</pre>").next());
    let seen = seen
        .unwrap_or_default()
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&");
    let seen: Vec<Value> = serde_json::from_str(&seen).unwrap_or_else(|why| panic!("{why}: {dom}"));
    assert_eq!(seen.len(), 8, "two pages in four widths");
    for view in &seen {
        assert_eq!(view["overflow"], 0, "{view}");
        assert_eq!(view["charts"], 8, "{view}");
        assert_eq!(view["named"], 8, "{view}");
        assert_eq!(view["scripts"], 0, "{view}");
        assert_eq!(view["broken"], 0, "{view}");
        assert_eq!(view["outside"], Value::Array(Vec::new()), "{view}");
        if view["width"] != 320 {
            assert!(view["smallest"].as_f64().unwrap() >= 12.0, "{view}");
        }
        assert_eq!(view["images"], 4, "a flame graph of each side: {view}");
        assert_ne!(view["title"], "owned");
    }
    listener.set_nonblocking(true).unwrap();
    assert_eq!(
        listener.accept().unwrap_err().kind(),
        ErrorKind::WouldBlock,
        "a request left the page"
    );
}
