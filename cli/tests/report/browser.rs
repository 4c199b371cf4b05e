//! Pages and pictures in a real browser: nothing runs, nothing is asked for, every chart is seen, also on a phone, and no
//! text leaves its picture or lies over another, whatever fonts the machine has.
//!
//! What is to be seen there must be looked at from outside, since the page itself runs nothing: another page holds it in
//! frames. That page also asks for an address, to show that such a request would be noticed.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use super::hostile::poison;
use super::*;
use crate::support::skip;

const LOOK: &str = include_str!("look.html");

/// What a browser may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// A machine's fonts: files by the ends of their names, without `.ttf`.
struct Fonts(&'static [&'static str]);

const DEJAVU: Fonts = Fonts(&[
    "DejaVuSans",
    "DejaVuSans-Bold",
    "DejaVuSansMono",
    "DejaVuSansMono-Bold",
]);
const LIBERATION: Fonts = Fonts(&[
    "LiberationSans-Regular",
    "LiberationSans-Bold",
    "LiberationMono-Regular",
    "LiberationMono-Bold",
]);
/// Neither of them is among those that a picture names.
const OTHERS: Fonts = Fonts(&["DejaVuSansMono", "DejaVuSerif-Bold"]);
/// It is part of the sources.
const ROBOTO: Fonts = Fonts(&["Roboto-Regular", "Roboto-Bold"]);
const NONE: Fonts = Fonts(&[]);

impl Fonts {
    /// Puts them into a directory, and a configuration beside them that knows no other. The reason is one to skip with.
    fn put(&self, place: &Path) -> Result<PathBuf, String> {
        let dir = place.join("fonts");
        fs::create_dir(&dir).expect("a directory");
        for name in self.0 {
            let file = format!("{name}.ttf");
            let own = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("fonts")
                .join(&file);
            let found = if own.exists() {
                Some(own)
            } else {
                find(Path::new("/usr/share/fonts"), &file)
            };
            let found = found.ok_or(format!(
                "{file} is not below /usr/share/fonts; install it with apt-get install fonts-dejavu-core fonts-liberation"
            ))?;
            fs::copy(found, dir.join(file)).expect("a copy of a font");
        }
        let configuration = place.join("fonts.conf");
        let text = format!(
            "<?xml version=\"1.0\"?><!DOCTYPE fontconfig SYSTEM \"fonts.dtd\"><fontconfig><dir>{}</dir><cachedir>{}</cachedir>\
             <include ignore_missing=\"yes\">/etc/fonts/conf.d</include></fontconfig>",
            dir.display(),
            place.join("font-cache").display(),
        );
        fs::write(&configuration, text).expect("a file");
        Ok(configuration)
    }
}

fn find(dir: &Path, name: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(dir).ok()?.flatten();
    entries.map(|entry| entry.path()).find_map(|path| {
        if path.is_dir() {
            find(&path, name)
        } else {
            path.ends_with(name).then_some(path)
        }
    })
}

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

/// Opens a file in the browser, without a network and with the fonts of a configuration.
#[track_caller]
fn opened(browser: &str, place: &Path, fonts: &Path, file: &Path) -> Opened {
    let log = place.join("net.json");
    let mut command = Command::new(browser);
    command
        .env("FONTCONFIG_FILE", fonts)
        .env("HOME", place)
        .env("XDG_RUNTIME_DIR", place)
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("XDG_DATA_HOME")
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
    let run = start(command, Stdio::null(), To::Captured).finish_within(PATIENCE);
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

/// Every chart of every run in both forms, and the pictures of other commands; their names.
fn pictures(dir: &Path) -> Vec<String> {
    let charts = [
        ("ladder", LADDER.into()),
        ("causes", data("profile.json")),
        ("sweep", data("sweep.json")),
        ("bandwidth", data("bandwidth.json")),
        ("bandwidth", data("conduits.json")),
        ("latency", data("bandwidth.json")),
    ];
    let charts = charts.iter().enumerate().flat_map(|(i, (chart, of))| {
        [("wide", ""), ("narrow", "--narrow")].map(|(form, flag)| {
            let mut command = fullbore(&format!("report --chart {chart} {flag} --svg -"));
            command.arg(of);
            (format!("{chart}-{i}-{form}.svg"), command)
        })
    });
    let ring = |name: &str, script: &str, line: &str| {
        let mut command = fullbore(&format!("ring --svg - {line} --do"));
        command.arg(script);
        (format!("ring-{name}.svg"), command)
    };
    let long = "write 65536; tee 3; splice 1000B; second resize 512K; fat 2; second write 40000; second read 65536";
    let walk = |line: &str| {
        let command = fullbore(&format!("walk --svg - {line}"));
        (
            format!("walk-{}.svg", line.replace([' ', '-'], "")),
            command,
        )
    };
    let others = [
        ring("short", "write 5000; read 1000; write 4096; splice 2", ""),
        ring("long", long, "--slots 16 --page-size 64K"),
        walk("0x7ffff7dc1234"),
        walk("0xffffffffffffffff --levels 5"),
        walk("0x0000f2705af953c0 --page-size 2M"),
        walk("0xffff888000000fff --levels 5 --page-size 1G"),
    ];
    let all = charts.chain(others).map(|(name, command)| {
        let run = run(command);
        run.quiet_success();
        fs::write(dir.join(&name), &run.out).expect("a file");
        name
    });
    all.collect()
}

/// Looks at good and bad pages and at all pictures, with these fonts and no other.
fn look_with(fonts: &Fonts) {
    let Some(browser) = browser() else {
        return skip("there is no chromium; install it with apt-get install chromium");
    };
    let place = place();
    let dir = place.path();
    let configuration = match fonts.put(dir) {
        Ok(configuration) => configuration,
        Err(why) => return skip(why),
    };
    // Whatever a page asked for would come here.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let evil = format!(
        "</style><script>document.title='owned';fetch('http://127.0.0.1:{port}/')</script><img src=http://127.0.0.1:{port}/ onerror=alert(1)>\""
    );
    fs::write(dir.join("good.html"), page(&one_of_each())).expect("a file");
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
    fs::write(dir.join("bad.html"), page(&bad)).expect("a file");
    let pictures = pictures(dir);
    let look = dir.join("look.html");
    let text = LOOK
        .replace("PAGES", "['good.html', 'bad.html']")
        .replace("PICTURES", &value!(pictures).to_string());
    fs::write(&look, text).expect("a file");

    let Opened {
        dom,
        console,
        requests,
    } = opened(browser, dir, &configuration, &look);
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
    let seen: Value = serde_json::from_str(&seen).unwrap_or_else(|why| panic!("{why}: {dom}"));
    assert_eq!(seen["failed"], Value::Null);
    let all = |kind: &str| seen[kind].as_array().expect("views").clone();
    let pages = all("pages");
    assert_eq!(pages.len(), 16, "two pages in four widths, light and dark");
    for view in &pages {
        assert_eq!(view["charts"], 8, "{view}");
        assert_eq!(view["named"], 8, "{view}");
        assert_eq!(view["scripts"], 0, "{view}");
        assert_eq!(view["broken"], 0, "{view}");
        if view["width"] != 320 {
            assert!(view["smallest"].as_f64().expect("a size") >= 12.0, "{view}");
        }
        assert_eq!(view["images"], 4, "a flame graph of each side: {view}");
        assert_ne!(view["title"], "owned");
    }
    let drawn = all("pictures");
    // Each page has four pictures more.
    assert_eq!(drawn.len(), 8 * (pictures.len() + 8));
    let views = || pages.iter().chain(&drawn);
    for view in views() {
        assert_eq!(view["dark"], view["scheme"] == "dark", "{view}");
        assert_eq!(view["overflow"], 0, "{view}");
        // Without a font there is no text to see.
        assert_eq!(view["seen"] == 0, fonts.0.is_empty(), "{view}");
    }
    let wrong: Vec<_> = views()
        .filter(|view| view["outside"] != value!([]) || view["overlapping"] != value!([]))
        .map(|view| {
            let [name, width] = ["name", "width"].map(|of| &view[of]);
            format!(
                "{name} at {width}: outside {}, overlapping {}",
                view["outside"], view["overlapping"]
            )
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    listener.set_nonblocking(true).expect("a mode");
    assert_eq!(
        listener.accept().map_err(|why| why.kind()).err(),
        Some(ErrorKind::WouldBlock),
        "a request left the page"
    );
}

#[test]
fn pages_and_pictures_are_whole_quiet_and_fit_a_phone_with_roboto() {
    look_with(&ROBOTO);
}

#[test]
fn pages_and_pictures_are_whole_quiet_and_fit_a_phone_with_dejavu() {
    look_with(&DEJAVU);
}

#[test]
fn pages_and_pictures_are_whole_quiet_and_fit_a_phone_with_liberation() {
    look_with(&LIBERATION);
}

#[test]
fn pages_and_pictures_are_whole_quiet_and_fit_a_phone_with_fonts_that_they_do_not_name() {
    look_with(&OTHERS);
}

#[test]
fn pages_and_pictures_are_whole_and_quiet_without_any_font() {
    look_with(&NONE);
}
