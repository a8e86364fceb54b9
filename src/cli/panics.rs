//! What a bug says: never a secret, never a backtrace unless asked for.

use super::exit::Exit;
use abide::engine::proxy::Proxies;
use abide::engine::secret::Mask;
use abide::profile::Profile;
use std::backtrace::Backtrace;
use std::sync::{Mutex, PoisonError};

static KNOWN: Mutex<Vec<Mask>> = Mutex::new(Vec::new());

/// Hides these secrets, too, in what a bug says.
pub fn hide(mask: &Mask) {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).push(mask.clone());
}

/// Hides the secrets of a profile, too: those of its proxy among them.
pub fn hide_profile(profile: &Profile) {
    let mut mask = profile.mask.clone();
    profile.proxy.url.iter().for_each(|proxy| proxy.hide(&mut mask));
    hide(&mask);
}

/// Hides the credentials of these proxies, too.
pub fn hide_proxies(proxies: &Proxies) {
    let mut mask = Mask::default();
    proxies.hide(&mut mask);
    hide(&mask);
}

/// Makes every panic end the process with a message of ours.
pub fn install(debug: bool) {
    std::panic::set_hook(Box::new(move |info| {
        eprintln!("error: a bug in abide: {}", hidden(info.to_string()));
        eprintln!("hint: if a request was sent, `abide status KEY` tells what is known; please report this");
        if debug {
            eprintln!("{}", Backtrace::force_capture());
        }
        std::process::exit(Exit::Bug.code());
    }));
}

/// Returns a message without the secrets that are known by now.
fn hidden(message: String) -> String {
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.iter().fold(message, |message, mask| mask.hide(&message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use abide::engine::proxy::{Exclusions, Proxy};

    #[test]
    fn a_bug_tells_neither_a_secret_nor_the_password_of_a_proxy() {
        let mut mask = Mask::default();
        mask.add("planted-token-7");
        hide(&mask);
        let proxy = Proxy::parse("http://me:planted-password-8@proxy.example:3128").expect("a proxy");
        hide_proxies(&Proxies::one(proxy, "-x", Exclusions::default()));
        let told = hidden("index 3 of \"planted-token-7\" by me:planted-password-8".into());
        assert!(told.starts_with("index 3 of ") && !told.contains("planted-"), "{told}");
    }
}
