use super::*;

fn example(name: &str) -> Profile {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles").join(name);
    let mut world = Fake::with(&[
        ("PAYMENTS_TOKEN", "tok-1234"),
        ("REGISTRY_PASSWORD", "pass-1234"),
        ("WEBHOOK_PATH_SECRET", "path-1234"),
        ("WEBHOOK_SECRET", "sign-1234"),
    ]);
    world.files.insert(path.clone(), std::fs::read(&path).expect("an example"));
    load(&path, &world).unwrap_or_else(|error| panic!("{error}"))
}

fn remarks(profile: &Profile) -> Vec<String> {
    check(profile).iter().map(Remark::to_string).collect()
}

#[test]
fn every_example_is_tested_here() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles");
    let entries = std::fs::read_dir(folder).expect("the examples");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    assert_eq!(names, ["gov-slow.toml", "payments.toml", "rehearsal.toml", "webhook.toml"]);
}

#[test]
fn payments_is_keyed_and_can_be_asked() {
    let payments = example("payments.toml");
    assert_eq!(
        remarks(&payments),
        [
            "worst case 2m35s, with a Retry-After or status requests 3m: promise users 3m30s",
            "POST /payments/*/refunds: worst case 4m15s, with a Retry-After or status requests 5m: promise users 5m30s",
        ]
    );
    let refund = policy(&payments, "POST", "https://api.payments.example/v2/payments/7/refunds");
    assert_eq!(refund.timeouts.read, Duration::from_secs(40));
    assert_eq!(refund.idempotency.retention, Some(Duration::from_secs(7 * 86_400)));
    assert!(refund.idempotency.supported && refund.status.is_some());
}

#[test]
fn the_slow_registry_has_no_key_and_can_be_asked() {
    let registry = example("gov-slow.toml");
    assert_eq!(remarks(&registry), ["worst case 10m20s, with a Retry-After or status requests 15m: promise users 17m"]);
    let filing = policy(&registry, "POST", "https://filings.registry.example/filings");
    assert!(!filing.idempotency.supported);
    assert_eq!(filing.classify.refused, [503]);
}

#[test]
fn the_webhook_has_its_key_in_the_body() {
    let webhook = example("webhook.toml");
    let said = remarks(&webhook);
    assert_eq!(said.len(), 3, "{said:#?}");
    assert!(said[1].starts_with("attempt 6 will not start") || said[1].starts_with("attempts"), "{said:#?}");
    assert!(said[2].starts_with("no [status]"), "{said:#?}");
    assert_eq!(webhook.mask.hide("/in/path-1234 sign-1234"), "/in/*** ***");
}

#[test]
fn the_partner_of_the_rehearsal_can_be_asked() {
    let rehearsal = example("rehearsal.toml");
    assert_eq!(remarks(&rehearsal), ["worst case 13.5s, with a Retry-After or status requests 20s: promise users 25s"]);
    let order = policy(&rehearsal, "POST", "http://127.0.0.1:8099/orders");
    assert!(!order.idempotency.supported && order.status.is_some());
}
