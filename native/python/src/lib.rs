//! Converts between Python and `sdcard-kernel`. The interpreter's lock is released while the kernel works.
//!
//! No function raises: wrong arguments, a panic and whatever Python raises decline.

mod lock;

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};

use lock::without_lock;
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyNone, PyString, PyTuple};
use sdcard_kernel::issue::{self, Item, Node, Part};
use sdcard_kernel::json::{Members, Value};
use sdcard_kernel::sd_jwt::{self, Limits, Place, Step};
use sdcard_kernel::{jws, queue};

/// What `sdcard.acceleration` compares: it counts up when a function changes.
const INTERFACE: u32 = 1;

/// Names that a `Maker` remembers.
const NAMES: usize = 64;

type Argument<'a, 'py> = &'a Bound<'py, PyAny>;

/// Works with the lock.
fn declining<T>(work: impl FnOnce() -> PyResult<Option<T>>) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()?.ok()?
}

/// Makes objects of Python. Members of one name share it.
struct Maker<'py, 'v> {
    py: Python<'py>,
    names: [Option<(&'v str, Bound<'py, PyString>)>; NAMES],
}

impl<'py, 'v> Maker<'py, 'v> {
    fn new(py: Python<'py>) -> Self {
        Self { py, names: [const { None }; NAMES] }
    }

    fn name(&mut self, name: &'v str) -> Bound<'py, PyString> {
        let first = name.bytes().next().unwrap_or_default() as usize;
        let slot = &mut self.names[(name.len() * 7 + first) % NAMES];
        match slot {
            Some((known, made)) if *known == name => made.clone(),
            _ => slot.insert((name, PyString::new(self.py, name))).1.clone(),
        }
    }

    fn object(&mut self, members: &'v Members) -> PyResult<Bound<'py, PyDict>> {
        let result = PyDict::new(self.py);
        for (name, value) in members {
            result.set_item(self.name(name), self.value(value)?)?;
        }
        Ok(result)
    }

    fn value(&mut self, value: &'v Value) -> PyResult<Bound<'py, PyAny>> {
        Ok(match value {
            Value::Null => PyNone::get(self.py).to_owned().into_any(),
            Value::Bool(value) => PyBool::new(self.py, *value).to_owned().into_any(),
            Value::Int(value) => PyInt::new(self.py, *value).into_any(),
            Value::Float(value) => PyFloat::new(self.py, *value).into_any(),
            Value::Text(value) => PyString::new(self.py, value).into_any(),
            Value::Array(elements) => {
                let result = PyList::empty(self.py);
                for element in elements {
                    result.append(self.value(element)?)?;
                }
                result.into_any()
            }
            Value::Object(members) => self.object(members)?.into_any(),
        })
    }
}

fn place<'py>(py: Python<'py>, steps: &Place) -> PyResult<Bound<'py, PyTuple>> {
    let steps = steps.iter().map(|step| match step {
        Step::Name(name) => PyString::new(py, name).into_any(),
        Step::Index(index) => PyInt::new(py, *index).into_any(),
    });
    PyTuple::new(py, steps.collect::<Vec<_>>())
}

/// Header, payload, signing input and signature of a compact JWS.
#[pyfunction]
fn read_jws<'py>(py: Python<'py>, text: Argument<'_, 'py>, depth: Argument<'_, 'py>) -> Option<Bound<'py, PyTuple>> {
    declining(|| {
        let (text, depth): (&str, usize) = (text.extract()?, depth.extract()?);
        let Some(parts) = without_lock(py, || jws::split(text)) else { return Ok(None) };
        let Some(read) = without_lock(py, || parts.read(depth)) else { return Ok(None) };
        let mut maker = Maker::new(py);
        let (header, payload) = (maker.object(&read.header)?, maker.object(&read.payload)?);
        let signed = PyBytes::new(py, parts.signing_input.as_bytes());
        (header, payload, signed, PyBytes::new(py, &parts.signature)).into_pyobject(py).map(Some)
    })
}

/// An SD-JWT with every Disclosure in its place.
#[pyfunction]
fn read_sd_jwt<'py>(
    py: Python<'py>,
    issuer_jwt: Argument<'_, 'py>,
    disclosures: Argument<'_, 'py>,
    depth: Argument<'_, 'py>,
    digests: Argument<'_, 'py>,
) -> Option<Bound<'py, PyTuple>> {
    declining(|| {
        let issuer_jwt: &str = issuer_jwt.extract()?;
        let held: Vec<Bound<'_, PyString>> = disclosures.extract()?;
        let disclosures = held.iter().map(|one| one.to_str()).collect::<PyResult<Vec<&str>>>()?;
        let limits = Limits { depth: depth.extract()?, digests: digests.extract()? };
        let decode = || Some((jws::split(issuer_jwt)?, sd_jwt::decode(&disclosures)?));
        let Some((parts, decoded)) = without_lock(py, decode) else { return Ok(None) };
        let process = || {
            let read = parts.read(limits.depth)?;
            let processed = sd_jwt::process(read.payload, &disclosures, &decoded, limits)?;
            Some((read.header, processed, sd_jwt::sd_hash(issuer_jwt, &disclosures)))
        };
        let Some((header, processed, sd_hash)) = without_lock(py, process) else { return Ok(None) };
        let sent = processed.sent.iter().map(|one| (&*one.salt, one.name.as_deref(), one.without_digests));
        let revealed = processed.revealed.iter().map(|one| Ok((place(py, &one.place)?, one.number, one.parent)));
        let emptied: PyResult<Vec<_>> = processed.emptied.iter().map(|one| place(py, one)).collect();
        let mut maker = Maker::new(py);
        let fields = [
            maker.object(&header)?.into_any(),
            maker.object(&processed.claims)?.into_any(),
            PyBytes::new(py, parts.signing_input.as_bytes()).into_any(),
            PyBytes::new(py, &parts.signature).into_any(),
            PyList::new(py, sent.collect::<Vec<_>>())?.into_any(),
            PyList::new(py, revealed.collect::<PyResult<Vec<_>>>()?)?.into_any(),
            PyInt::new(py, processed.met - processed.revealed.len()).into_any(),
            PyList::new(py, processed.partly.iter().map(|one| &**one))?.into_any(),
            PyList::new(py, emptied?)?.into_any(),
            PyString::new(py, &sd_hash).into_any(),
        ];
        PyTuple::new(py, fields).map(Some)
    })
}

/// The point and the thumbprint of a P-256 key with these coordinates.
#[pyfunction]
fn read_point<'py>(
    py: Python<'py>,
    x: Argument<'_, 'py>,
    y: Argument<'_, 'py>,
) -> Option<(Bound<'py, PyBytes>, String)> {
    declining(|| {
        let (x, y): (&str, &str) = (x.extract()?, y.extract()?);
        let read = without_lock(py, || jws::read_point(x, y));
        Ok(read.map(|(point, thumbprint)| (PyBytes::new(py, &point), thumbprint)))
    })
}

/// Whether a P-256 key made a signature, r and s, over a message.
#[pyfunction]
fn verifies(
    py: Python<'_>,
    point: Argument<'_, '_>,
    message: Argument<'_, '_>,
    signature: Argument<'_, '_>,
) -> Option<bool> {
    declining(|| {
        let (point, message, signature): (&[u8], &[u8], &[u8]) =
            (point.extract()?, message.extract()?, signature.extract()?);
        Ok(without_lock(py, || Some(jws::verifies(point, message, signature))))
    })
}

/// A private key of P-256 that does not leave this object.
#[pyclass(frozen, module = "sdcard_native")]
struct Signer(jws::Signer);

#[pymethods]
impl Signer {
    /// A signature, r and s, over a message; None when there is no randomness.
    fn sign<'py>(&self, py: Python<'py>, message: Argument<'_, 'py>) -> Option<Bound<'py, PyBytes>> {
        declining(|| {
            let message: &[u8] = message.extract()?;
            Ok(without_lock(py, || self.0.sign(message)).map(|signature| PyBytes::new(py, &signature)))
        })
    }
}

/// The signer of a private key and its point.
#[pyfunction]
fn signer(py: Python<'_>, private: Argument<'_, '_>, point: Argument<'_, '_>) -> Option<Signer> {
    declining(|| {
        let (private, point): (&[u8], &[u8]) = (private.extract()?, point.extract()?);
        Ok(without_lock(py, || jws::Signer::new(private, point)).map(Signer))
    })
}

/// Signatures that threads verify while others are added.
#[pyclass(frozen, module = "sdcard_native")]
struct SignatureQueue(queue::Queue);

#[pymethods]
impl SignatureQueue {
    #[new]
    fn new() -> Self {
        Self(queue::Queue::default())
    }

    /// Adds the signature, r and s, of a P-256 key over a message.
    fn add(&self, point: &[u8], message: &[u8], signature: &[u8]) {
        self.0.add((point.to_vec(), message.to_vec(), signature.to_vec()));
    }

    /// Says that no more are added.
    fn close(&self) {
        self.0.close();
    }

    /// Verifies signatures until the queue is closed and none is waiting.
    fn work(&self, py: Python<'_>) {
        let work = || -> Option<()> {
            self.0.work();
            None
        };
        without_lock(py, work);
    }

    /// Whether each signature is known to be valid.
    fn valid(&self) -> Vec<bool> {
        self.0.valid()
    }
}

/// What every SD-Card of a plan has.
#[pyclass(frozen, module = "sdcard_native")]
struct Template(issue::Template);

#[pymethods]
impl Template {
    /// How many salts are drawn, call by call.
    #[getter]
    fn draws(&self) -> Vec<usize> {
        self.0.draws()
    }

    /// A copy is None: its owner asks for a template of its own.
    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyAny>, Bound<'py, PyTuple>) {
        (py.None().bind(py).get_type().into_any(), PyTuple::empty(py))
    }

    /// Signing input and Disclosures of an SD-JWT.
    fn write<'py>(
        &self,
        py: Python<'py>,
        salts: Argument<'_, 'py>,
        header: Argument<'_, 'py>,
        names: Argument<'_, 'py>,
        tail: Argument<'_, 'py>,
    ) -> Option<(Bound<'py, PyBytes>, Bound<'py, PyTuple>)> {
        declining(|| {
            let (salts, header, tail): (&[u8], &str, &[u8]) = (salts.extract()?, header.extract()?, tail.extract()?);
            let names: Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> = names.extract()?;
            let names: Vec<_> = names.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
            let work = || self.0.write(salts, header, &names, tail);
            let Some((signing_input, disclosures)) = without_lock(py, work) else { return Ok(None) };
            Ok(Some((PyBytes::new(py, &signing_input), PyTuple::new(py, disclosures)?)))
        })
    }
}

type ItemOfPython<'py> = (bool, Option<Bound<'py, PyString>>, Bound<'py, PyAny>);

fn node(value: &Bound<'_, PyAny>) -> PyResult<Option<Node>> {
    let (is_array, digests, items): (bool, usize, Vec<ItemOfPython>) = value.extract()?;
    let mut read = Vec::with_capacity(items.len());
    for (selective, name, part) in items {
        let part = match part.cast::<PyBytes>() {
            Ok(json) => Some(Part::Json(json.as_bytes().to_vec())),
            Err(_) => node(&part)?.map(Part::Node),
        };
        let name = name.as_ref().map(|name| name.to_str()).transpose()?;
        let Some(item) = part.and_then(|part| Item::new(selective, name, part)) else { return Ok(None) };
        read.push(item);
    }
    Ok(Some(Node { is_array, digests, items: read }))
}

/// The template of a plan, whose root is described: whether it is an array, how many digests it has, and its items.
#[pyfunction]
fn template(root: Argument<'_, '_>) -> Option<Template> {
    declining(|| Ok(node(root)?.and_then(issue::Template::new).map(Template)))
}

#[pymodule]
fn sdcard_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    if std::env::var_os("SDCARD_NATIVE").is_some_and(|value| value == "off") {
        return Err(PyImportError::new_err("SDCARD_NATIVE=off disables the kernel"));
    }
    let end = wrap_pyfunction!(lock::end, module)?;
    module.py().import("atexit")?.call_method1("register", (end,))?;
    set_hook(Box::new(|_| {})); // of this library alone; a panic's text could show what was read
    module.add("INTERFACE", INTERFACE)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("signature_queue", module.py().get_type::<SignatureQueue>())?;
    module.add_class::<Signer>()?;
    module.add_class::<Template>()?;
    module.add_function(wrap_pyfunction!(read_jws, module)?)?;
    module.add_function(wrap_pyfunction!(read_sd_jwt, module)?)?;
    module.add_function(wrap_pyfunction!(read_point, module)?)?;
    module.add_function(wrap_pyfunction!(verifies, module)?)?;
    module.add_function(wrap_pyfunction!(signer, module)?)?;
    module.add_function(wrap_pyfunction!(template, module)?)
}
