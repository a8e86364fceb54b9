use super::*;

fn fails(world: &mut Fake, text: &str) -> String {
    world.load(text).expect_err(text).to_string()
}

/// Returns (what is sent, what is stored, what is shown) of the profile's only header.
fn header(profile: &Profile) -> (String, String, String) {
    let header = profile.headers.first().or(profile.auth.as_ref()).expect("a header");
    let value = &header.value;
    (value.sent.expose().into(), value.stored.to_string(), value.shown.to_string())
}

fn texts(sent: &str, stored: &str, shown: &str) -> (String, String, String) {
    (sent.into(), stored.into(), shown.into())
}

#[test]
fn a_variable_that_is_unset_or_empty_is_named_with_its_line() {
    let text = "[headers]\nAuthorization = \"Bearer ${TOKEN}\"";
    let error = Fake::default().load(text).expect_err("unset");
    assert_eq!(error.to_string(), "p.toml:2: `headers.Authorization`: the variable TOKEN is unset");
    assert_eq!(error.hint().as_deref(), Some("export TOKEN=… before running abide"));
    let words = fails(&mut Fake::with(&[("TOKEN", "")]), text);
    assert_eq!(words, "p.toml:2: `headers.Authorization`: the variable TOKEN is empty");
    let words = fails(&mut Fake::with(&[("TOKEN", "ab\ncd")]), text);
    assert_eq!(
        words,
        "p.toml:2: `headers.Authorization`: the variable TOKEN holds a line break or another character that cannot be sent"
    );
    for (text, words) in [
        ("base_url = 'http://${HOST}/'", "p.toml:1: `base_url`: the variable HOST is unset"),
        ("[auth]\ntoken_env = 'T'", "p.toml:2: `auth.token_env`: the variable T is unset"),
        ("[auth]\nuser = 'u'\npassword_env = 'P'", "p.toml:3: `auth.password_env`: the variable P is unset"),
        ("[status]\nconfirmed = [200]\nurl = '/${S}'", "p.toml:3: `status.url`: the variable S is unset"),
        ("[headers]\nX = '${'", "p.toml:2: `headers.X` has a ${ without a name of letters, digits and _ and a }"),
    ] {
        assert_eq!(fails(&mut Fake::default(), text), words);
    }
}

#[test]
fn header_values_are_stored_as_references_or_masked_and_never_as_themselves() {
    let mut world = Fake::with(&[("TOKEN", "sk-live-77")]);
    for (line, expected) in [
        ("X-A = '${TOKEN}'", texts("sk-live-77", "$env:TOKEN", "${TOKEN}")),
        ("X-A = 'Bearer ${TOKEN}'", texts("Bearer sk-live-77", "$env:Bearer ${TOKEN}", "Bearer ${TOKEN}")),
        ("X-A = 'plain'", texts("plain", "plain", "plain")),
        ("X-A = '$env:A'", texts("$env:A", "$text:$env:A", "$env:A")),
        ("Cookie = 'a=sk-live-77'", texts("a=sk-live-77", "$masked", "***")),
        ("X-Pin = '12345'", texts("12345", "$masked", "***")),
    ] {
        let read = world.load(&format!("[secrets]\nheaders = ['x-pin']\n[headers]\n{line}")).expect(line);
        assert_eq!(header(&read), expected);
        let debugged = format!("{read:?}");
        assert!(!debugged.contains("sk-live-77") || line.starts_with("Cookie"), "{debugged}");
        if !line.starts_with("X-A = 'p") && !line.contains("$env:A") {
            assert_eq!(read.mask.hide(&expected.0).matches("***").count(), 1, "{line}");
        }
    }
}

#[test]
fn credentials_come_from_exactly_one_source() {
    let mut world = Fake::with(&[("T", "tok-1234"), ("P", "pass-word")]);
    world.files.insert("token".into(), b"tok-file\r\n".to_vec());
    world.commands.insert("pass", ("tok-command\n", Some(0)));
    // base64 of acme:pass-word
    let basic = "Basic YWNtZTpwYXNzLXdvcmQ=";
    for (auth, sent, stored) in [
        ("token_env = 'T'", "Bearer tok-1234", "$env:Bearer ${T}"),
        ("scheme = 'Token'\ntoken_env = 'T'", "Token tok-1234", "$env:Token ${T}"),
        ("token_file = 'token'", "Bearer tok-file", "$masked"),
        ("token_command = ['pass', 'show', 'acme']", "Bearer tok-command", "$masked"),
        ("user = 'acme'\npassword_env = 'P'", basic, "$masked"),
        ("scheme = 'Basic'\nuser = 'acme'\npassword_env = 'P'", basic, "$masked"),
    ] {
        let read = world.load(&format!("[auth]\n{auth}")).expect(auth);
        assert_eq!(header(&read), texts(sent, stored, "***"));
        let secret = sent.rsplit(' ').next().expect("a word");
        assert_eq!(read.mask.hide(&format!("<{secret}>")), "<***>", "{auth}");
    }
    assert_eq!(world.load("[auth]\nuser = 'acme'\npassword_env = 'P'").expect("valid").mask.hide("pass-word"), "***");
    for (auth, words) in [
        (
            "token_env = 'T'\ntoken_file = 'token'",
            "3: `auth.token_file` and `auth.token_env` are both stated, exactly one source is used",
        ),
        ("", "1: `auth.token_env` is missing: [auth] needs a token_env, token_file or token_command, or a user"),
        ("user = 'u'", "1: `auth.password_env` is missing: `user` needs a password_env, _file or _command"),
        ("password_env = 'P'", "1: `auth.user` is missing: a password needs a user"),
        ("user = 'u'\ntoken_env = 'T'", "2: `auth.user` and a token are both stated"),
        ("user = 'a:b'\npassword_env = 'P'", "2: `auth.user` must be printable ASCII without a colon"),
        ("scheme = 'Basic'\ntoken_env = 'T'", "2: `auth.scheme` \"Basic\" needs a user and a password"),
        ("scheme = 'A B'\ntoken_env = 'T'", "2: `auth.scheme` is no scheme such as \"Bearer\""),
        ("token_command = 'pass show'", "2: `auth.token_command` must be a list of a command and its arguments"),
        ("token_command = []", "2: `auth.token_command` names no command"),
    ] {
        assert_eq!(fails(&mut world, &format!("[auth]\n{auth}")), format!("p.toml:{words}"));
    }
    let both = "[headers]\nauthorization = 'Bearer ${T}'\n[auth]\ntoken_env = 'T'";
    assert_eq!(fails(&mut world, both), "p.toml:3: `auth` and an Authorization under [headers] are both stated");
}

#[test]
fn a_broken_secret_is_never_quoted() {
    let mut world = Fake::default();
    for (name, content) in [
        ("empty", &b""[..]),
        ("newline", b"\n"),
        ("two", b"hush-1\nhush-2\n"),
        ("blank", b"hush-1 \n"),
        ("binary", b"hush-1\xff"),
    ] {
        world.files.insert(name.into(), content.to_vec());
    }
    world.commands.insert("fails", ("hush-1", Some(3)));
    world.commands.insert("killed", ("hush-1", None));
    world.commands.insert("silent", ("", Some(0)));
    for (source, words) in [
        ("token_file = 'empty'", "the secret is empty"),
        ("token_file = 'newline'", "the secret is empty"),
        ("token_file = 'two'", "the secret has a line break inside"),
        ("token_file = 'blank'", "the secret has a character that cannot be sent in a header"),
        ("token_file = 'binary'", "the secret has a character that cannot be sent in a header"),
        ("token_file = 'none'", "cannot read none: entity not found"),
        ("token_command = ['fails', 'hush-1']", "fails ended with exit status 3"),
        ("token_command = ['killed']", "killed was ended by a signal"),
        ("token_command = ['silent']", "the secret is empty"),
        ("token_command = ['gone', 'hush-1']", "cannot start gone: entity not found"),
    ] {
        let key = source.split(' ').next().expect("a key");
        assert_eq!(fails(&mut world, &format!("[auth]\n{source}")), format!("p.toml:2: `auth.{key}`: {words}"));
    }
}

#[test]
fn files_of_secrets_are_looked_for_beside_the_profile() {
    let mut world = Fake::default();
    world.files.insert("conf/p.toml".into(), b"[auth]\ntoken_file = 'token'".to_vec());
    world.files.insert("conf/token".into(), b"tok-1234".to_vec());
    let read = load(Path::new("conf/p.toml"), &world).expect("valid");
    assert_eq!(header(&read).0, "Bearer tok-1234");
    assert!(read.absolute.is_absolute());
}

#[test]
fn variables_in_base_url_are_secret_in_its_path_only() {
    let mut world = Fake::with(&[("HOST", "api.example:81"), ("KEY", "hush-1234"), ("ALL", "http://api.example/v1")]);
    let read = world.load("base_url = 'http://${HOST}/in/${KEY}/'").expect("valid");
    let base = read.base.as_ref().expect("a base");
    assert_eq!(
        (base.url.as_str(), &*base.template),
        ("http://api.example:81/in/hush-1234/", "http://api.example:81/in/${KEY}")
    );
    assert_eq!(read.mask.hide("/in/hush-1234"), "/in/***");
    assert_eq!(read.mask.hide("api.example:81"), "api.example:81");
    let url = base.join("/x").expect("a URL");
    let guarded = base.guard(&url, &[], &mut Mask::default());
    assert_eq!(&*guarded.stored, "http://api.example:81/in/${KEY}/x");
    assert_eq!(base.resolve(&guarded.stored).as_deref(), Some("http://api.example:81/in/hush-1234/x"));
    assert_eq!(base.resolve("http://api.example:81/in/${OTHER}/x"), None);
    let beside = address::parse("http://api.example:81/in/hush-12345").expect("a URL");
    let guarded = base.guard(&beside, &[], &mut read.mask.clone());
    assert_eq!(&*guarded.stored, "http://api.example:81/in/***5");
    let read = world.load("base_url = '${ALL}'").expect("valid");
    assert_eq!(read.base_url().map(Url::as_str), Some("http://api.example/v1"));
}

#[test]
fn secret_parameters_of_a_status_url_are_masked() {
    let read = profile("[status]\nconfirmed = [200]\nurl = 'http://a/s?api_key=hush-1234&id={key}'");
    assert_eq!(read.mask.hide("x hush-1234 y"), "x *** y");
    let shown = show(&read).into_iter().find(|setting| &*setting.name == "status.url").expect("it is stated");
    assert_eq!(&*shown.value, "'http://a/s?api_key=***&id={key}'");
}
