//! OpenSSL 3, by the functions of the copy that Python's own `ssl` has loaded into this process.
//!
//! The only `unsafe` of TLS, and so small. What makes it sound:
//!
//! * The functions' types are those of OpenSSL 3's headers, which its ABI keeps; a library whose major version is not 3
//!   is not used. The library is never unloaded, so that what it has given out stays callable.
//! * A [`Context`] is changed only while it is built, by one thread. Afterwards OpenSSL itself counts its references
//!   and locks what sessions share of it; so it may be sent and shared.
//! * A [`Session`] is used through `&mut`, so by one thread at a time, which is all that OpenSSL asks; nothing in it is
//!   bound to a thread. Its two BIOs belong to it: `SSL_free` frees them.
//! * Every length that is passed is that of a slice that lives during the call, cut to what a C `int` holds.
//! * The queue of errors is the thread's. It is emptied before each call whose result `SSL_get_error` explains, which
//!   otherwise would explain an older one, and after each error.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::ptr::{null, null_mut};
use std::sync::{Mutex, PoisonError};

type Pointer = *mut c_void;
type Choose = unsafe extern "C" fn(Pointer, *mut *const u8, *mut u8, *const u8, c_uint, *mut c_void) -> c_int;
type Password = unsafe extern "C" fn(*mut c_char, c_int, c_int, *mut c_void) -> c_int;

extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> Pointer;
    fn dlsym(library: Pointer, name: *const c_char) -> Pointer;
}

const NOW: c_int = 2;
/// Only what is loaded already.
const NO_LOAD: c_int = 4;

macro_rules! functions {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions that are used, by their names.
        #[allow(non_snake_case)]
        struct Functions { $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)* }

        impl Functions {
            /// `library` is OpenSSL's `libssl`; `dlsym` looks into what that is linked with, too.
            unsafe fn of(library: Pointer) -> Result<Functions, String> {
                Ok(Functions { $($name: {
                    let found = dlsym(library, concat!(stringify!($name), "\0").as_ptr().cast());
                    if found.is_null() {
                        return Err(concat!("libssl.so.3 has no ", stringify!($name)).to_owned());
                    }
                    // A pointer to a function has the size of one to anything on every Linux.
                    std::mem::transmute::<Pointer, unsafe extern "C" fn($($argument),*) $(-> $result)?>(found)
                },)* })
            }
        }
    };
}

functions! {
    OPENSSL_version_major() -> c_uint;
    ERR_clear_error();
    ERR_get_error() -> c_ulong;
    ERR_reason_error_string(c_ulong) -> *const c_char;
    TLS_server_method() -> Pointer;
    SSL_CTX_new(Pointer) -> Pointer;
    SSL_CTX_free(Pointer);
    SSL_CTX_ctrl(Pointer, c_int, c_long, Pointer) -> c_long;
    SSL_CTX_set_options(Pointer, u64) -> u64;
    SSL_CTX_set_cipher_list(Pointer, *const c_char) -> c_int;
    SSL_CTX_set_default_passwd_cb(Pointer, Password);
    SSL_CTX_use_certificate_chain_file(Pointer, *const c_char) -> c_int;
    SSL_CTX_use_PrivateKey_file(Pointer, *const c_char, c_int) -> c_int;
    SSL_CTX_check_private_key(Pointer) -> c_int;
    SSL_CTX_load_verify_file(Pointer, *const c_char) -> c_int;
    SSL_load_client_CA_file(*const c_char) -> Pointer;
    SSL_CTX_set_client_CA_list(Pointer, Pointer);
    SSL_CTX_set_verify(Pointer, c_int, *const c_void);
    SSL_CTX_set_session_id_context(Pointer, *const u8, c_uint) -> c_int;
    SSL_CTX_set_alpn_select_cb(Pointer, Choose, *mut c_void);
    SSL_new(Pointer) -> Pointer;
    SSL_free(Pointer);
    SSL_set_bio(Pointer, Pointer, Pointer);
    SSL_set_accept_state(Pointer);
    SSL_do_handshake(Pointer) -> c_int;
    SSL_read(Pointer, *mut c_void, c_int) -> c_int;
    SSL_write(Pointer, *const c_void, c_int) -> c_int;
    SSL_shutdown(Pointer) -> c_int;
    SSL_get_error(Pointer, c_int) -> c_int;
    SSL_get1_peer_certificate(Pointer) -> Pointer;
    BIO_new(Pointer) -> Pointer;
    BIO_s_mem() -> Pointer;
    BIO_free(Pointer) -> c_int;
    BIO_read(Pointer, *mut c_void, c_int) -> c_int;
    BIO_write(Pointer, *const c_void, c_int) -> c_int;
    X509_free(Pointer);
    X509_get_subject_name(Pointer) -> Pointer;
    X509_NAME_get_index_by_NID(Pointer, c_int, c_int) -> c_int;
    X509_NAME_get_entry(Pointer, c_int) -> Pointer;
    X509_NAME_ENTRY_get_data(Pointer) -> Pointer;
    X509_get_ext_d2i(Pointer, c_int, *mut c_int, *mut c_int) -> Pointer;
    GENERAL_NAMES_free(Pointer);
    OPENSSL_sk_num(Pointer) -> c_int;
    OPENSSL_sk_value(Pointer, c_int) -> Pointer;
    ASN1_STRING_to_UTF8(*mut *mut u8, Pointer) -> c_int;
    CRYPTO_free(Pointer, *const c_char, c_int);
}

const SET_MODE: c_int = 33;
const SET_SESSION_CACHE: c_int = 44;
const SET_LEAST_VERSION: c_int = 123;
const TLS_1_2: c_long = 0x0303;
/// Idle connections hold no buffers; a write may be tried again from another place.
const MODE: c_long = 0x10 | 0x02;
/// No compression, the server's order of ciphers, no renegotiation.
const OPTIONS: u64 = 1 << 17 | 1 << 22 | 1 << 30;
/// Of TLS 1.2; those of 1.3 are all of this kind. HTTP/2 forbids the others (RFC 9113, appendix A).
const CIPHERS: &[u8] = b"ECDHE+AESGCM:ECDHE+CHACHA20\0";
const PEM: c_int = 1;
/// Ask for a certificate, and refuse who has none.
const VERIFY: c_int = 0x01 | 0x02;
const WANT_READ: c_int = 2;
const WANT_WRITE: c_int = 3;
const CLOSED: c_int = 6;
const COMMON_NAME: c_int = 13;
const ALTERNATIVE_NAMES: c_int = 85;
/// Kinds of an alternative name, in the order in which one becomes the client's name: URI, DNS, e-mail.
const KINDS: [c_int; 3] = [6, 2, 1];

/// The library, once it was looked for; its pointers are good for ever.
static FOUND: Mutex<Option<Result<&'static Functions, String>>> = Mutex::new(None);

fn functions() -> Result<&'static Functions, String> {
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    found.get_or_insert_with(|| load().map(|functions| &*Box::leak(Box::new(functions)))).clone()
}

fn load() -> Result<Functions, String> {
    // SAFETY: the name ends with a zero. Nothing is loaded, so no initialiser runs; the handle is kept for ever.
    let library = unsafe { dlopen(b"libssl.so.3\0".as_ptr().cast(), NOW | NO_LOAD) };
    if library.is_null() {
        return Err("Python's ssl module has not loaded the system's libssl.so.3 (OpenSSL 3)".to_owned());
    }
    // SAFETY: the handle is that of libssl.so.3, whose functions have these types.
    let functions = unsafe { Functions::of(library)? };
    // SAFETY: it takes nothing.
    match unsafe { (functions.OPENSSL_version_major)() } {
        3 => Ok(functions),
        other => Err(format!("libssl.so.3 is of OpenSSL {other}, not 3")),
    }
}

/// Why there is no TLS; none where there is.
pub fn missing() -> Option<String> {
    functions().err()
}

/// Which protocol a port speaks, by its name in ALPN (RFC 7301), and whether who offers only others is refused.
pub struct Spoken {
    pub name: &'static [u8],
    pub only: bool,
}

/// Choose the protocol. It allocates nothing and cannot panic.
unsafe extern "C" fn choose(
    _ssl: Pointer,
    out: *mut *const u8,
    out_length: *mut u8,
    offered: *const u8,
    offered_length: c_uint,
    spoken: *mut c_void,
) -> c_int {
    // SAFETY: OpenSSL lends the list for the call; `spoken` is the static that `Context::new` has given.
    let (spoken, mut rest) = (&*spoken.cast::<Spoken>(), std::slice::from_raw_parts(offered, offered_length as usize));
    while let Some((length, behind)) = rest.split_first() {
        let (name, next) = behind.split_at(behind.len().min(*length as usize));
        if name == spoken.name {
            // What is pointed to must outlive the call: it is static.
            *out = spoken.name.as_ptr();
            *out_length = spoken.name.len() as u8;
            return 0;
        }
        rest = next;
    }
    if spoken.only {
        2 // a fatal alert
    } else {
        3 // as if nothing had been offered
    }
}

thread_local! {
    /// Whether a passphrase was asked for.
    static ASKED: Cell<bool> = const { Cell::new(false) };
}

/// A key that wants a passphrase cannot be used: without this OpenSSL would ask for it at the terminal.
unsafe extern "C" fn no_password(_: *mut c_char, _: c_int, _: c_int, _: *mut c_void) -> c_int {
    ASKED.with(|asked| asked.set(true));
    -1
}

/// The files of a server: its chain and key, and the authority of its clients, empty where they need no certificate.
pub struct Papers<'a> {
    pub certificate: &'a str,
    pub key: &'a str,
    pub authority: &'a str,
}

/// What all sessions of a port share.
pub struct Context {
    functions: &'static Functions,
    at: Pointer,
}

// SAFETY: see the head of this file.
unsafe impl Send for Context {}
unsafe impl Sync for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it is ours, and sessions hold references of their own.
        unsafe { (self.functions.SSL_CTX_free)(self.at) }
    }
}

impl Context {
    /// Read the files; the error says which cannot be used and why, and nothing of what is in them.
    pub fn new(papers: &Papers<'_>, spoken: &'static Spoken) -> Result<Context, String> {
        let functions = functions()?;
        // SAFETY: the method is a static of OpenSSL's.
        let at = unsafe { (functions.SSL_CTX_new)((functions.TLS_server_method)()) };
        if at.is_null() {
            return Err(said(functions, "OpenSSL"));
        }
        let context = Context { functions, at };
        let f = functions;
        let name = b"vitrify";
        // SAFETY: the context is ours, nobody else has it yet, and every text ends with a zero. What `choose` is given is
        // only read, and static.
        unsafe {
            (f.ERR_clear_error)();
            let right = (f.SSL_CTX_ctrl)(at, SET_LEAST_VERSION, TLS_1_2, null_mut()) == 1
                && (f.SSL_CTX_set_cipher_list)(at, CIPHERS.as_ptr().cast()) == 1
                && (f.SSL_CTX_set_session_id_context)(at, name.as_ptr(), name.len() as c_uint) == 1;
            if !right {
                return Err(said(f, "OpenSSL"));
            }
            (f.SSL_CTX_ctrl)(at, SET_MODE, MODE, null_mut());
            // Sessions are resumed by tickets, which the clients keep.
            (f.SSL_CTX_ctrl)(at, SET_SESSION_CACHE, 0, null_mut());
            (f.SSL_CTX_set_options)(at, OPTIONS);
            (f.SSL_CTX_set_default_passwd_cb)(at, no_password);
            (f.SSL_CTX_set_alpn_select_cb)(at, choose, spoken as *const Spoken as *mut c_void);
        }
        context.read(papers)?;
        Ok(context)
    }

    fn read(&self, papers: &Papers<'_>) -> Result<(), String> {
        let (f, at) = (self.functions, self.at);
        let [chain, key, authority] = [papers.certificate, papers.key, papers.authority]
            .map(|path| CString::new(path).map_err(|_| "a path has a zero in it".to_owned()));
        let (chain, key, authority) = (chain?, key?, authority?);
        // SAFETY: as in `new`. The list of names is given to the context, which frees it.
        unsafe {
            if (f.SSL_CTX_use_certificate_chain_file)(at, chain.as_ptr()) != 1 {
                return Err(said(f, papers.certificate));
            }
            let right =
                (f.SSL_CTX_use_PrivateKey_file)(at, key.as_ptr(), PEM) == 1 && (f.SSL_CTX_check_private_key)(at) == 1;
            if ASKED.with(|asked| asked.replace(false)) {
                (f.ERR_clear_error)();
                return Err(format!("{}: it is locked by a passphrase; a server needs one that is not", papers.key));
            }
            if !right {
                return Err(said(f, papers.key));
            }
            if !papers.authority.is_empty() {
                let names = (f.SSL_load_client_CA_file)(authority.as_ptr());
                if names.is_null() {
                    return Err(said(f, papers.authority));
                }
                (f.SSL_CTX_set_client_CA_list)(at, names);
                if (f.SSL_CTX_load_verify_file)(at, authority.as_ptr()) != 1 {
                    return Err(said(f, papers.authority));
                }
                (f.SSL_CTX_set_verify)(at, VERIFY, null());
            }
        }
        Ok(())
    }
}

/// What OpenSSL says went wrong first, and nothing is left of it.
fn said(f: &Functions, what: &str) -> String {
    // SAFETY: the texts are statics of OpenSSL's.
    let reason = unsafe {
        let text = (f.ERR_reason_error_string)((f.ERR_get_error)());
        (f.ERR_clear_error)();
        if text.is_null() {
            "no such file, or it cannot be read".into()
        } else {
            CStr::from_ptr(text).to_string_lossy()
        }
    };
    format!("{what}: {reason}")
}

/// What became of a step.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// It is done: so many bytes.
    Done(usize),
    /// Bytes of the other side are needed first.
    Wants,
    /// The other side has said that nothing more comes.
    Closed,
    /// It is over. There may be an alert to send.
    Failed,
}

/// One connection's TLS; sealed bytes go in and out through memory.
pub struct Session {
    functions: &'static Functions,
    ssl: Pointer,
    incoming: Pointer,
    outgoing: Pointer,
}

// SAFETY: see the head of this file.
unsafe impl Send for Session {}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: it is ours, and the BIOs are freed with it.
        unsafe { (self.functions.SSL_free)(self.ssl) }
    }
}

fn size(length: usize) -> c_int {
    length.min(c_int::MAX as usize) as c_int
}

impl Session {
    /// Begin as the server; none where memory is short.
    pub fn new(context: &Context) -> Option<Session> {
        let f = context.functions;
        // SAFETY: what was made is freed here, or belongs to the session from `SSL_set_bio` on.
        unsafe {
            let (ssl, incoming, outgoing) =
                ((f.SSL_new)(context.at), (f.BIO_new)((f.BIO_s_mem)()), (f.BIO_new)((f.BIO_s_mem)()));
            if ssl.is_null() || incoming.is_null() || outgoing.is_null() {
                // All three take a null pointer.
                (f.SSL_free)(ssl);
                (f.BIO_free)(incoming);
                (f.BIO_free)(outgoing);
                (f.ERR_clear_error)();
                return None;
            }
            (f.SSL_set_bio)(ssl, incoming, outgoing);
            (f.SSL_set_accept_state)(ssl);
            Some(Session { functions: f, ssl, incoming, outgoing })
        }
    }

    /// Explain the result of a call.
    fn step(&self, result: c_int) -> Step {
        if result > 0 {
            return Step::Done(result as usize);
        }
        let f = self.functions;
        // SAFETY: the result is that of this thread's last call for this session.
        let reason = unsafe { (f.SSL_get_error)(self.ssl, result) };
        match reason {
            WANT_READ | WANT_WRITE => Step::Wants,
            CLOSED => Step::Closed,
            _ => {
                // SAFETY: it takes nothing.
                unsafe { (f.ERR_clear_error)() };
                Step::Failed
            }
        }
    }

    /// Go on with the handshake.
    pub fn shake(&mut self) -> Step {
        // SAFETY: the session is ours.
        let result = unsafe {
            (self.functions.ERR_clear_error)();
            (self.functions.SSL_do_handshake)(self.ssl)
        };
        self.step(result)
    }

    /// Take sealed bytes that have come. False where memory is short.
    pub fn take(&mut self, bytes: &[u8]) -> bool {
        // SAFETY: so many bytes are read.
        let taken = unsafe { (self.functions.BIO_write)(self.incoming, bytes.as_ptr().cast(), size(bytes.len())) };
        taken == size(bytes.len())
    }

    /// Open what was taken.
    pub fn read(&mut self, into: &mut [u8]) -> Step {
        // SAFETY: at most so many bytes are written.
        let result = unsafe {
            (self.functions.ERR_clear_error)();
            (self.functions.SSL_read)(self.ssl, into.as_mut_ptr().cast(), size(into.len()))
        };
        self.step(result)
    }

    /// Seal bytes, of which there are some.
    pub fn write(&mut self, bytes: &[u8]) -> Step {
        // SAFETY: at most so many bytes are read.
        let result = unsafe {
            (self.functions.ERR_clear_error)();
            (self.functions.SSL_write)(self.ssl, bytes.as_ptr().cast(), size(bytes.len()))
        };
        self.step(result)
    }

    /// Say that nothing more comes.
    pub fn close(&mut self) {
        // SAFETY: the session is ours. Whether the other side says so, too, is not waited for.
        unsafe {
            (self.functions.SSL_shutdown)(self.ssl);
            (self.functions.ERR_clear_error)();
        }
    }

    /// Sealed bytes that are to be sent; 0 where there are none.
    pub fn sealed(&mut self, into: &mut [u8]) -> usize {
        // SAFETY: at most so many bytes are written.
        let count = unsafe { (self.functions.BIO_read)(self.outgoing, into.as_mut_ptr().cast(), size(into.len())) };
        count.max(0) as usize
    }

    /// Who the client is, by its certificate, which was checked in the handshake: its common name, or else its first URI,
    /// DNS name or e-mail address.
    pub fn name(&self) -> Option<String> {
        let f = self.functions;
        // SAFETY: the certificate is ours and lives until it is freed here; what is asked of it is borrowed from it.
        unsafe {
            let certificate = (f.SSL_get1_peer_certificate)(self.ssl);
            if certificate.is_null() {
                return None;
            }
            let subject = (f.X509_get_subject_name)(certificate);
            let place = (f.X509_NAME_get_index_by_NID)(subject, COMMON_NAME, -1);
            let entry = if place < 0 { null_mut() } else { (f.X509_NAME_get_entry)(subject, place) };
            let common = if entry.is_null() { None } else { text(f, (f.X509_NAME_ENTRY_get_data)(entry)) };
            let found = common.or_else(|| alternative(f, certificate));
            (f.X509_free)(certificate);
            (f.ERR_clear_error)();
            found
        }
    }
}

/// `GENERAL_NAME` of `openssl/x509v3.h`; for the kinds that are asked for, its union is an `ASN1_IA5STRING *`.
#[repr(C)]
struct Alternative {
    kind: c_int,
    value: Pointer,
}

unsafe fn alternative(f: &Functions, certificate: Pointer) -> Option<String> {
    let names = (f.X509_get_ext_d2i)(certificate, ALTERNATIVE_NAMES, null_mut(), null_mut());
    if names.is_null() {
        return None;
    }
    let all = || (0..(f.OPENSSL_sk_num)(names)).map(|place| &*(f.OPENSSL_sk_value)(names, place).cast::<Alternative>());
    let found = KINDS.iter().find_map(|kind| all().filter(|one| one.kind == *kind).find_map(|one| text(f, one.value)));
    (f.GENERAL_NAMES_free)(names);
    found
}

/// An `ASN1_STRING` as text; none where it is empty or no text, or could be taken for another: it has a zero in it.
unsafe fn text(f: &Functions, string: Pointer) -> Option<String> {
    let mut bytes = null_mut();
    let length = (f.ASN1_STRING_to_UTF8)(&mut bytes, string);
    if length < 0 || bytes.is_null() {
        return None;
    }
    let found = std::slice::from_raw_parts(bytes, length as usize).to_vec();
    (f.CRYPTO_free)(bytes.cast(), null(), 0);
    String::from_utf8(found).ok().filter(|text| !text.is_empty() && !text.contains('\0'))
}
