use super::super::{SystemRoots, Tls};
use super::*;
use rcgen::{CertifiedKey as Made, generate_simple_self_signed};

fn made() -> Made<rcgen::KeyPair> {
    generate_simple_self_signed(vec!["partner.example".into()]).expect("makes")
}

fn file(name: &str, bytes: impl AsRef<[u8]>) -> TlsFile {
    TlsFile { name: name.into(), bytes: bytes.as_ref().into() }
}

fn refusal(files: &TlsFiles) -> String {
    Tls::of(files, SystemRoots::default()).expect_err("is refused").to_string()
}

fn trusting(bytes: impl AsRef<[u8]>) -> TlsFiles {
    TlsFiles { ca: Some(file("ca", bytes)), ..TlsFiles::default() }
}

fn showing(cert: impl AsRef<[u8]>, key: Option<String>) -> TlsFiles {
    let key = key.map(|key| file("key", key));
    TlsFiles { cert: Some(file("cert", cert)), key, ..TlsFiles::default() }
}

#[test]
fn a_file_to_trust_is_refused_in_words() {
    let made = made();
    let (pem, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let cut = &pem[..pem.len() / 2];
    let twisted = pem.replacen("MII", "AAA", 1);
    let cases: [(&[u8], &str); 9] = [
        (b"", "ca: it is empty"),
        (b" \r\n", "ca: it is empty"),
        (b"hello", "ca: it is not PEM"),
        (
            b"\x30\x82\x05\x05\x02\x01\x03\x30",
            "ca: it is PKCS#12, which is none of the certificates to trust or a key alone",
        ),
        (made.cert.der(), "ca: it is DER, not PEM"),
        (cut.as_bytes(), "ca: it is damaged"),
        (twisted.as_bytes(), "ca: certificate 1 in it cannot be used"),
        (key.as_bytes(), "ca: it holds no certificate"),
        (&vec![b'x'; TLS_FILE_MAX as usize + 1], "ca: it is larger than 4 MiB"),
    ];
    for (bytes, words) in cases {
        assert_eq!(refusal(&trusting(bytes)), words);
    }
    assert_eq!(refusal(&trusting(format!("{pem}{twisted}"))), "ca: certificate 2 in it cannot be used");
    assert!(Tls::of(&trusting(format!("# ours\r\n{pem}{pem}")), SystemRoots::default()).is_ok());
}

#[test]
fn a_certificate_is_shown_only_with_its_key() {
    let (ours, other) = (made(), made());
    let (pem, key) = (ours.cert.pem(), ours.signing_key.serialize_pem());
    for files in [showing(&pem, Some(key.clone())), showing(format!("{key}{pem}"), None)] {
        assert!(Tls::of(&files, SystemRoots::default()).is_ok());
    }
    let encrypted = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let old = key.replace("-----BEGIN PRIVATE KEY-----\n", "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n");
    let cases = [
        (None, "cert: it holds no private key"),
        (Some(pem.clone()), "key: it holds no private key"),
        (Some(other.signing_key.serialize_pem()), "key: its key is not that of cert"),
        (Some(format!("{key}{key}")), "key: it holds several private keys"),
        (Some(encrypted), "key: its key is encrypted, and no password is stated"),
        (Some(old), "key: its key is encrypted in the old way of OpenSSL"),
        (Some(String::new()), "key: it is empty"),
    ];
    for (key, words) in cases {
        assert_eq!(refusal(&showing(&pem, key)), words);
    }
}

#[test]
fn no_content_is_ever_printed() {
    let made = made();
    let files = showing(made.cert.pem(), Some(made.signing_key.serialize_pem()));
    assert!(!format!("{files:?}").contains("BEGIN"));
}

#[test]
fn a_key_behind_a_password_is_opened_by_that_password_alone() {
    use p12_keystore::{Certificate, KeyStore, KeyStoreEntry, PrivateKey, PrivateKeyChain};
    let made = made();
    let (cert, key) = (made.cert.der(), made.signing_key.serialize_der());
    let certs = [Certificate::from_der(cert).expect("reads")];
    let chain = PrivateKeyChain::new("1", PrivateKey::from_der(&key).expect("reads"), certs);
    let mut store = KeyStore::new();
    store.add_entry("us", KeyStoreEntry::PrivateKeyChain(chain));
    let pkcs12 = store.writer("sesame").encryption_iterations(10).mac_iterations(10).write().expect("writes");

    let params = pkcs8::pkcs5::pbes2::Parameters::generate_pbkdf2_sha256_aes256cbc(10, b"saltsalt", [7; 16]);
    let plain = pkcs8::PrivateKeyInfoRef::try_from(&*key).expect("PKCS#8");
    let locked = plain.encrypt_with_params(params.expect("parameters"), "sesame").expect("encrypts");
    let packed = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, locked.as_bytes());
    let lines: Vec<&str> = packed.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).expect("ASCII")).collect();
    let name = "ENCRYPTED PRIVATE KEY-----";
    let pem = format!("-----BEGIN {name}\r\n{}\r\n-----END {name}\r\n", lines.join("\r\n"));

    for files in [showing(&pkcs12, None), showing(made.cert.pem(), Some(pem))] {
        let with = |word: &str| TlsFiles { password: Some(Secret::new(word)), ..files.clone() };
        assert!(Tls::of(&with("sesame"), SystemRoots::default()).is_ok());
        assert!(refusal(&with("open")).ends_with("the password does not open its key"));
        assert!(refusal(&files).ends_with("its key is encrypted, and no password is stated"));
    }
    let cut = showing(&pkcs12[..pkcs12.len() / 2], None);
    assert_eq!(refusal(&cut), "cert: it is damaged");
}
