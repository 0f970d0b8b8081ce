//! Certificates for tests over TLS.

use std::path::Path;

use anyhow::Context as _;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// Writes `ca.pem`, and `server.pem` with its key `server.key` for `domain`, which it has signed,
/// to `directory`. Whoever trusts the first trusts what this run has made and nothing else: its key
/// is not kept.
///
/// # Errors
///
/// A file cannot be written, or `domain` cannot be in a certificate.
pub fn write(directory: &Path, domain: &str) -> anyhow::Result<()> {
    let mut authority = CertificateParams::default();
    authority.distinguished_name = DistinguishedName::new();
    authority.distinguished_name.push(DnType::CommonName, "interop authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let key = KeyPair::generate()?;
    let certificate = authority.self_signed(&key)?;
    let issuer = Issuer::new(authority, key);

    let server_key = KeyPair::generate()?;
    let server = CertificateParams::new([domain.to_owned()])?.signed_by(&server_key, &issuer)?;
    for (name, text) in [
        ("ca.pem", certificate.pem()),
        ("server.pem", server.pem()),
        ("server.key", server_key.serialize_pem()),
    ] {
        let path = directory.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
