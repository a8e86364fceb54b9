use super::*;

fn world() -> Fake {
    let mut world = Fake::with(&[("WORD", "sesame")]);
    for (name, text) in [("ca.pem", "the issuer"), ("us.pem", "the certificate"), ("us.key", "the key")] {
        world.files.insert(name.into(), text.as_bytes().to_vec());
    }
    world
}

fn fails(text: &str) -> String {
    world().load(text).expect_err(text).to_string()
}

#[test]
fn files_are_read_from_the_folder_of_the_profile_and_named_with_their_line() {
    let text = "[tls]\nca_file = 'ca.pem'\ncert_file = 'us.pem'\nkey_file = 'us.key'\nkey_password_env = 'WORD'";
    let profile = world().load(text).expect("is valid");
    let tls = &profile.tls;
    let named = |file: &Option<NamedFile>| {
        file.as_ref().map(|file| (file.name.to_string(), String::from_utf8_lossy(&file.bytes).into_owned()))
    };
    assert_eq!(named(&tls.ca), Some(("p.toml:2: `tls.ca_file` ca.pem".into(), "the issuer".into())));
    assert_eq!(named(&tls.cert), Some(("p.toml:3: `tls.cert_file` us.pem".into(), "the certificate".into())));
    assert_eq!(named(&tls.key), Some(("p.toml:4: `tls.key_file` us.key".into(), "the key".into())));
    assert_eq!(tls.password.as_ref().map(Secret::expose), Some("sesame"));
    assert_eq!(profile.mask.hide("open sesame"), "open ***");
    let shown = format!("{tls:?}");
    assert!(!shown.contains("the key") && !shown.contains("sesame"), "{shown}");
}

#[test]
fn what_contradicts_itself_or_is_missing_is_refused() {
    for (text, words) in [
        ("[tls]\nca_file = 'no.pem'", "p.toml:2: `tls.ca_file`: cannot read no.pem: entity not found"),
        ("[tls]\nkey_file = 'us.key'", "p.toml:2: `tls.key_file` goes with a `tls.cert_file`, and none is stated"),
        (
            "[tls]\nkey_password_env = 'WORD'",
            "p.toml:2: `tls.key_password_env` goes with a `tls.cert_file`, and none is stated",
        ),
        (
            "[tls]\ncert_file = 'us.pem'\nkey_password_env = 'WORD'\nkey_password_file = 'w'",
            "p.toml:4: `tls.key_password_file` and `tls.key_password_env` are both stated, exactly one source is used",
        ),
        (
            "[tls]\ncert_file = 'us.pem'\nkey_password_env = 'NONE'",
            "p.toml:3: `tls.key_password_env`: the variable NONE is unset",
        ),
        ("[tls]\nca = 'ca.pem'", "p.toml:2: unknown key `tls.ca`"),
    ] {
        assert_eq!(fails(text), words);
    }
}
