//! Certificates: of the gateway, read anew when their files change, and of its peers.
//!
//! **Invariants:** files that cannot be used change nothing: those that were read before stay in
//! use, and the log says why. Connections keep what they were opened with.
//! **Not here:** TLS itself (rustls).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use nearcall_os::clock;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use x509_parser::extensions::GeneralName;

use super::GatewayError;
use super::limits::CERTIFICATES_INTERVAL;

/// The files by which a gateway proves who it is, and demands that of its peers.
///
/// They are PEM files, and read again once they have changed, for the connections that come then.
#[derive(Debug, Clone)]
pub struct TlsOptions {
    certificate: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
}

impl TlsOptions {
    /// Takes the chain of certificates, the gateway's own first, and its private key.
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self { certificate: certificate.into(), key: key.into(), client_ca: None }
    }

    /// Takes calls only from peers whose certificate was issued by one of those in this file.
    #[must_use]
    pub fn client_ca(mut self, file: impl Into<PathBuf>) -> Self {
        self.client_ca = Some(file.into());
        self
    }

    fn files(&self) -> impl Iterator<Item = &Path> {
        [&self.certificate, &self.key].into_iter().chain(&self.client_ca).map(PathBuf::as_path)
    }

    /// Reads the files.
    fn read(&self) -> Result<ServerConfig, GatewayError> {
        let refuse = |file: &Path, why: String| GatewayError::Tls { file: file.into(), why };
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| refuse(&self.certificate, error.to_string()))?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(file) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(file)? {
                    let added = roots.add(certificate);
                    added.map_err(|error| refuse(file, error.to_string()))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
                let verifier = verifier.build().map_err(|error| refuse(file, error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| {
            refuse(&self.key, format!("{error}; it holds a private key as PEM"))
        })?;
        let mut config = builder
            .with_single_cert(certificates(&self.certificate)?, key)
            .map_err(|error| refuse(&self.certificate, error.to_string()))?;
        // The second one for programs that are to be told that this is no server of pages.
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    /// Returns what changes when a file is replaced or written.
    fn state(&self) -> Vec<FileState> {
        let state = |file: &Path| {
            let metadata = fs::metadata(file)?;
            Ok::<_, io::Error>((metadata.modified()?, metadata.len()))
        };
        self.files().map(|file| state(file).ok()).collect()
    }
}

/// When a file was changed last, and its length.
type FileState = Option<(SystemTime, u64)>;

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, GatewayError> {
    let read = CertificateDer::pem_file_iter(file)
        .and_then(|certificates| certificates.collect::<Result<Vec<_>, _>>());
    let why = match read {
        Ok(certificates) if !certificates.is_empty() => return Ok(certificates),
        Ok(_) => "there is no certificate in it; it holds them as PEM".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(GatewayError::Tls { file: file.into(), why })
}

/// The certificates that are in use.
#[derive(Debug)]
pub(super) struct Certificates {
    options: TlsOptions,
    used: Mutex<Used>,
}

#[derive(Debug)]
struct Used {
    config: Arc<ServerConfig>,
    files: Vec<FileState>,
    looked: std::time::Instant,
}

impl Certificates {
    pub(super) fn read(options: TlsOptions) -> Result<Self, GatewayError> {
        let files = options.state();
        let config = Arc::new(options.read()?);
        let used = Mutex::new(Used { config, files, looked: clock::now() });
        Ok(Self { options, used })
    }

    /// Returns what the next connection is opened with. Looks now and then whether that has
    /// changed.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock::now();
        if now.duration_since(used.looked) >= CERTIFICATES_INTERVAL {
            used.looked = now;
            let files = self.options.state();
            if files != used.files {
                used.files = files;
                match self.options.read() {
                    Ok(config) => {
                        used.config = Arc::new(config);
                        tracing::info!("the gateway has read its certificates again");
                    }
                    Err(error) => tracing::error!(
                        %error,
                        "the changed certificates cannot be used; the gateway keeps those before"
                    ),
                }
            }
        }
        Arc::clone(&used.config).into()
    }
}

/// Returns the names in a certificate that was verified: those of hosts and URIs, and the common
/// name.
///
/// # Errors
///
/// These bytes are no certificate, which rustls would have refused.
pub(super) fn names_in(certificate: &CertificateDer<'_>) -> io::Result<Vec<String>> {
    let (_, certificate) =
        x509_parser::parse_x509_certificate(certificate).map_err(io::Error::other)?;
    let alternatives = certificate.subject_alternative_name().ok().flatten();
    let alternatives = alternatives.iter().flat_map(|it| &it.value.general_names);
    let names = alternatives.filter_map(|name| match name {
        GeneralName::DNSName(name) | GeneralName::URI(name) => Some((*name).to_owned()),
        _ => None,
    });
    let common = certificate.subject().iter_common_name();
    let common = common.filter_map(|name| name.as_str().ok().map(str::to_owned));
    Ok(names.chain(common).collect())
}
