//! Converts between Python and `sdcard-kernel`. The interpreter's lock is released while the kernel works.
//!
//! No function raises: wrong arguments, a panic and whatever Python raises decline.

mod lock;

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::sync::Arc;

use lock::without_lock;
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyNone, PyString, PyTuple};
use sdcard_kernel::claims::{Binding, Expected, Terms};
use sdcard_kernel::holder::{Answer, Segment};
use sdcard_kernel::issue::{self, Item, Part};
use sdcard_kernel::json::{Node, Text, Value};
use sdcard_kernel::queue::{self, Job};
use sdcard_kernel::sd_jwt::{self, Limits, Place, Step};
use sdcard_kernel::{json, jws};

/// What `sdcard.acceleration` compares: it counts up when a function changes.
const INTERFACE: u32 = 4;

/// Names that a `Maker` remembers.
const NAMES: usize = 64;

type Argument<'a, 'py> = &'a Bound<'py, PyAny>;

/// Works with the lock.
fn declining<T>(work: impl FnOnce() -> PyResult<Option<T>>) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()?.ok()?
}

/// Makes objects of Python. Members of one name share it.
struct Maker<'py, 'b> {
    py: Python<'py>,
    buffer: &'b str,
    names: [Option<(&'b str, Bound<'py, PyString>)>; NAMES],
}

impl<'py, 'b> Maker<'py, 'b> {
    fn new(py: Python<'py>, buffer: &'b str) -> Self {
        Self { py, buffer, names: [const { None }; NAMES] }
    }

    fn text(&self, text: Text) -> Bound<'py, PyString> {
        PyString::new(self.py, text.of(self.buffer))
    }

    fn name(&mut self, name: Text) -> Bound<'py, PyString> {
        let name = name.of(self.buffer);
        let first = name.bytes().next().unwrap_or_default() as usize;
        let slot = &mut self.names[(name.len() * 7 + first) % NAMES];
        match slot {
            Some((known, made)) if *known == name => made.clone(),
            _ => slot.insert((name, PyString::new(self.py, name))).1.clone(),
        }
    }

    fn object(&mut self, members: impl IntoIterator<Item = (Text, Value<'b>)>) -> PyResult<Bound<'py, PyDict>> {
        let result = PyDict::new(self.py);
        for (name, value) in members {
            result.set_item(self.name(name), self.value(value)?)?;
        }
        Ok(result)
    }

    fn value(&mut self, value: Value<'b>) -> PyResult<Bound<'py, PyAny>> {
        Ok(match value.node() {
            Node::Null => PyNone::get(self.py).to_owned().into_any(),
            Node::Bool(value) => PyBool::new(self.py, value).to_owned().into_any(),
            Node::Int(value) => PyInt::new(self.py, value).into_any(),
            Node::Float(value) => PyFloat::new(self.py, value).into_any(),
            Node::Text(value) => self.text(value).into_any(),
            Node::Array(_) => {
                let made: PyResult<Vec<_>> =
                    value.elements().into_iter().flatten().map(|element| self.value(element)).collect();
                PyList::new(self.py, made?)?.into_any()
            }
            Node::Object(_) => self.object(value.members().into_iter().flatten())?.into_any(),
        })
    }

    fn place(&mut self, steps: &Place) -> PyResult<Bound<'py, PyTuple>> {
        let steps = steps.iter().map(|step| match step {
            Step::Name(name) => self.name(*name).into_any(),
            Step::Index(index) => PyInt::new(self.py, *index).into_any(),
        });
        let steps: Vec<_> = steps.collect();
        PyTuple::new(self.py, steps)
    }
}

/// Header, payload, signing input and signature of a compact JWS.
#[pyfunction]
fn read_jws<'py>(py: Python<'py>, text: Argument<'_, 'py>, depth: Argument<'_, 'py>) -> Option<Bound<'py, PyTuple>> {
    declining(|| {
        let (text, depth): (&str, usize) = (text.extract()?, depth.extract()?);
        let Some(read) = without_lock(py, || jws::read(text, depth)) else { return Ok(None) };
        let Some((signed, ..)) = jws::split(text) else { return Ok(None) };
        let mut maker = Maker::new(py, &read.buffer);
        let header = maker.object(read.header().into_iter().flatten())?;
        let payload = maker.object(read.payload().into_iter().flatten())?;
        let (signed, signature) = (PyBytes::new(py, signed.as_bytes()), PyBytes::new(py, &read.signature));
        (header, payload, signed, signature).into_pyobject(py).map(Some)
    })
}

/// The texts of a tuple, which live as long as it does.
struct Texts<'py>(Vec<Bound<'py, PyString>>);

impl<'py> Texts<'py> {
    fn of(texts: Argument<'_, 'py>) -> PyResult<Self> {
        Ok(Self(texts.extract()?))
    }

    fn strs(&self) -> PyResult<Vec<&str>> {
        self.0.iter().map(|one| one.to_str()).collect()
    }
}

/// A segment of a path.
#[derive(FromPyObject)]
enum Named<'py> {
    Name(Bound<'py, PyString>),
    Index(usize),
}

impl Named<'_> {
    fn segment(&self) -> PyResult<Segment<'_>> {
        Ok(match self {
            Named::Name(name) => Segment::Name(name.to_str()?),
            Named::Index(index) => Segment::Index(*index),
        })
    }
}

/// The parts of a compact SD-JWT: Issuer-signed JWT, at most so many Disclosures, and KB-JWT.
#[pyfunction]
fn split<'py>(text: Argument<'_, 'py>, most: Argument<'_, 'py>) -> Option<Bound<'py, PyTuple>> {
    declining(|| {
        let (py, text, most): (_, &str, usize) = (text.py(), text.extract()?, most.extract()?);
        let Some((parts, kb_jwt)) = jws::parts(text, most) else { return Ok(None) };
        let (issuer_jwt, disclosures) = (parts[0], &parts[1..]);
        let kb_jwt = (!kb_jwt.is_empty()).then(|| PyString::new(py, kb_jwt));
        (PyString::new(py, issuer_jwt), PyTuple::new(py, disclosures)?, kb_jwt).into_pyobject(py).map(Some)
    })
}

/// An SD-JWT with every Disclosure in its place, which is not verified.
#[pyclass(frozen, module = "sdcard_native")]
struct SdJwt(Arc<sd_jwt::SdJwt>);

/// Reads an SD-JWT.
#[pyfunction]
fn read_sd_jwt(
    py: Python<'_>,
    issuer_jwt: Argument<'_, '_>,
    disclosures: Argument<'_, '_>,
    depth: Argument<'_, '_>,
    digests: Argument<'_, '_>,
    known: Argument<'_, '_>,
) -> Option<SdJwt> {
    declining(|| {
        let (issuer_jwt, texts): (&str, _) = (issuer_jwt.extract()?, Texts::of(disclosures)?);
        let (disclosures, limits) = (texts.strs()?, Limits { depth: depth.extract()?, digests: digests.extract()? });
        let known: Option<PyRef<'_, Key>> = known.extract()?;
        let known = known.as_ref().map(|key| &key.0);
        let read = without_lock(py, || sd_jwt::SdJwt::read(issuer_jwt, &disclosures, limits, known));
        Ok(read.map(|read| SdJwt(Arc::new(read))))
    })
}

#[pymethods]
impl SdJwt {
    /// `iss` and the header.
    #[getter]
    fn origin<'py>(&self, py: Python<'py>) -> Option<(Option<Bound<'py, PyAny>>, Bound<'py, PyDict>)> {
        declining(|| {
            let mut maker = Maker::new(py, &self.0.buffer);
            let Some(claims) = self.0.processed.claims() else { return Ok(None) };
            let issuer = json::member(claims, "iss", &self.0.buffer);
            let issuer = issuer.map(|issuer| maker.value(issuer)).transpose()?;
            Ok(Some((issuer, maker.object(self.0.header().into_iter().flatten())?)))
        })
    }

    /// The claims of the SD-Card, if the key made the signature and no rule may be broken.
    ///
    /// With a queue the signature is added to it, and not verified.
    #[allow(clippy::too_many_arguments)]
    fn accept<'py>(
        &self,
        py: Python<'py>,
        key: Argument<'_, 'py>,
        expired: Argument<'_, 'py>,
        begun: Argument<'_, 'py>,
        longest: Argument<'_, 'py>,
        audience: Argument<'_, 'py>,
        queue: Argument<'_, 'py>,
    ) -> Option<Bound<'py, PyTuple>> {
        declining(|| {
            let (key, audience): (PyRef<'_, Key>, Option<&str>) = (key.extract()?, audience.extract()?);
            let (expired, begun, longest) = (expired.extract()?, begun.extract()?, longest.extract()?);
            let queue: Option<PyRef<'_, Queue>> = queue.extract()?;
            let terms = Terms { expired, begun, longest, audience };
            let (Some(card), Some(holder)) = (self.0.card(&terms), &self.0.holder) else { return Ok(None) };
            let (hash, signature) = (self.0.signed, &self.0.signature);
            let key = &key.0;
            let job = || Job::Verify { key: key.clone(), hash, signature: signature.clone() };
            let verify = || without_lock(py, || key.verifies_digest(&hash, signature).then_some(0));
            if queue.map_or_else(verify, |queue| queue.0.add(job())).is_none() {
                return Ok(None);
            }
            let mut maker = Maker::new(py, &self.0.buffer);
            let emptied: PyResult<Vec<_>> = self.0.processed.emptied.iter().map(|one| maker.place(one)).collect();
            let status = card.status.map(|status| maker.value(status)).transpose()?;
            let fields = [
                PyString::new(py, card.issuer).into_any(),
                PyString::new(py, card.subject).into_any(),
                PyInt::new(py, card.issued_at).into_any(),
                PyInt::new(py, card.expires_at).into_any(),
                PyString::new(py, card.vct).into_any(),
                card.not_before.into_pyobject(py)?,
                PyTuple::new(py, card.audience)?.into_any(),
                card.token_id.into_pyobject(py)?,
                card.card_format.into_pyobject(py)?,
                PyTuple::new(py, status)?.into_any(),
                card.issuer_checks.map(|codes| maker.value(codes)).transpose()?.into_pyobject(py)?,
                PyString::new(py, card.coordinates.0).into_any(),
                PyString::new(py, card.coordinates.1).into_any(),
                Bound::new(py, Key(holder.clone()))?.into_any(),
                PyString::new(py, &holder.thumbprint).into_any(),
                PyInt::new(py, self.0.processed.met - self.0.processed.revealed.len()).into_any(),
                PyList::new(py, emptied?)?.into_any(),
            ];
            PyTuple::new(py, fields).map(Some)
        })
    }

    /// `iat`, `nonce` and `interaction_id` of a KB-JWT over this SD-JWT, as `accept` has it.
    #[allow(clippy::too_many_arguments)]
    fn bound<'py>(
        &self,
        py: Python<'py>,
        kb_jwt: Argument<'_, 'py>,
        disclosures: Argument<'_, 'py>,
        audience: Argument<'_, 'py>,
        nonce: Argument<'_, 'py>,
        interaction: Argument<'_, 'py>,
        earliest: Argument<'_, 'py>,
        latest: Argument<'_, 'py>,
        depth: Argument<'_, 'py>,
        queue: Argument<'_, 'py>,
    ) -> Option<(i64, String, Option<String>)> {
        declining(|| {
            let (kb_jwt, audience): (&str, &str) = (kb_jwt.extract()?, audience.extract()?);
            let (nonce, interaction) = (nonce.extract()?, interaction.extract()?);
            let (earliest, latest, depth) = (earliest.extract()?, latest.extract()?, depth.extract()?);
            let queue: Option<PyRef<'_, Queue>> = queue.extract()?;
            let expected = Expected { audience, nonce, interaction, earliest, latest };
            let Some(key) = &self.0.holder else { return Ok(None) };
            let texts = Texts::of(disclosures)?;
            let disclosures = texts.strs()?;
            let read = || Binding::read(kb_jwt, self.0.sd_hash(&disclosures), &expected, depth);
            let Some(read) = (if let Some(queue) = queue {
                read().filter(|read| {
                    let (key, hash, signature) = (key.clone(), read.signed, read.signature.clone());
                    queue.0.add(Job::Verify { key, hash, signature }).is_some()
                })
            } else {
                without_lock(py, || read().filter(|read| key.verifies_digest(&read.signed, &read.signature)))
            }) else {
                return Ok(None);
            };
            Ok(Some((read.issued_at, read.nonce, read.interaction)))
        })
    }

    /// Everything that was read, as `ReadSdJwt` has it.
    fn processed<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyTuple>> {
        declining(|| {
            let processed = &self.0.processed;
            let mut maker = Maker::new(py, &self.0.buffer);
            let mut sent = Vec::with_capacity(processed.sent.len());
            for one in &processed.sent {
                let name = one.name.map(|name| maker.name(name));
                sent.push((maker.text(one.salt), name, one.without_digests).into_pyobject(py)?);
            }
            let mut revealed = Vec::with_capacity(sent.len());
            for one in &processed.revealed {
                revealed.push((maker.place(&one.place)?, one.number, one.parent).into_pyobject(py)?);
            }
            let partly: Vec<_> = processed.partly.iter().map(|name| maker.name(*name)).collect();
            let emptied: PyResult<Vec<_>> = processed.emptied.iter().map(|one| maker.place(one)).collect();
            let fields = [
                maker.object(self.0.header().into_iter().flatten())?.into_any(),
                maker.object(processed.claims().into_iter().flatten())?.into_any(),
                PyList::new(py, sent)?.into_any(),
                PyList::new(py, revealed)?.into_any(),
                PyInt::new(py, processed.met - processed.revealed.len()).into_any(),
                PyList::new(py, partly)?.into_any(),
                PyList::new(py, emptied?)?.into_any(),
            ];
            PyTuple::new(py, fields).map(Some)
        })
    }

    /// The card's members, made anew.
    fn members<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyDict>> {
        declining(|| {
            let members = self.0.processed.claims().into_iter().flatten();
            Maker::new(py, &self.0.buffer).object(members.filter(|(name, _)| self.0.is_of_card(*name))).map(Some)
        })
    }

    /// The bytes that it takes.
    #[getter]
    fn size(&self) -> usize {
        self.0.size()
    }

    /// The Disclosures, by number, that paths select.
    fn select(&self, paths: Argument<'_, '_>) -> Option<Vec<usize>> {
        declining(|| {
            let paths: Vec<Vec<Named>> = paths.extract()?;
            let mut segments = Vec::with_capacity(paths.len());
            for path in &paths {
                let read: PyResult<Vec<_>> = path.iter().map(Named::segment).collect();
                segments.push(read?);
            }
            Ok(self.0.select(&segments))
        })
    }

    /// The chosen Disclosures in the Issuer's order, and a KB-JWT over them, without its signature if there is no signer.
    #[allow(clippy::too_many_arguments)]
    fn present<'py>(
        &self,
        py: Python<'py>,
        disclosures: Argument<'_, 'py>,
        chosen: Argument<'_, 'py>,
        header: Argument<'_, 'py>,
        issued_at: Argument<'_, 'py>,
        audience: Argument<'_, 'py>,
        nonce: Argument<'_, 'py>,
        interaction: Argument<'_, 'py>,
        signer: Argument<'_, 'py>,
    ) -> Option<(Bound<'py, PyTuple>, Bound<'py, PyString>)> {
        declining(|| {
            let (disclosures, chosen) = (Texts::of(disclosures)?, Texts::of(chosen)?);
            let (texts, chosen, header): (_, _, &str) = (disclosures.strs()?, chosen.strs()?, header.extract()?);
            let (issued_at, audience, nonce) = (issued_at.extract()?, audience.extract()?, nonce.extract()?);
            let answer = Answer { issued_at, audience, nonce, interaction: interaction.extract()? };
            let signer: Option<PyRef<'_, Signer>> = signer.extract()?;
            let signer = signer.as_ref().map(|signer| &signer.0);
            let bound = without_lock(py, || {
                let numbers = self.0.shown(&texts, &chosen)?;
                let shown: Vec<&str> = numbers.iter().map(|&number| texts[number]).collect();
                let kb_jwt = self.0.bind(&shown, header, &answer, signer)?;
                Some((numbers, kb_jwt))
            });
            let Some((numbers, kb_jwt)) = bound else { return Ok(None) };
            let shown = PyTuple::new(py, numbers.iter().map(|&number| &disclosures.0[number]))?;
            Ok(Some((shown, PyString::new(py, &kb_jwt))))
        })
    }
}

/// A public key of P-256.
#[pyclass(frozen, module = "sdcard_native")]
struct Key(Arc<jws::Key>);

#[pymethods]
impl Key {
    /// The uncompressed point.
    #[getter]
    fn point<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.point)
    }

    /// RFC 7638, SHA-256.
    #[getter]
    fn thumbprint(&self) -> &str {
        &self.0.thumbprint
    }

    /// Whether the key made a signature, r and s, over a message.
    fn verifies(&self, py: Python<'_>, message: Argument<'_, '_>, signature: Argument<'_, '_>) -> Option<bool> {
        declining(|| {
            let (message, signature): (&[u8], &[u8]) = (message.extract()?, signature.extract()?);
            Ok(without_lock(py, || Some(self.0.verifies(message, signature))))
        })
    }
}

/// The P-256 key with these coordinates.
#[pyfunction]
fn read_key(py: Python<'_>, x: Argument<'_, '_>, y: Argument<'_, '_>) -> Option<Key> {
    declining(|| {
        let (x, y): (&str, &str) = (x.extract()?, y.extract()?);
        Ok(without_lock(py, || jws::Key::read(x, y)).map(|key| Key(Arc::new(key))))
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

/// SD-JWTs that threads read, and signatures that they verify, while others are added.
#[pyclass(frozen, module = "sdcard_native")]
struct Queue(queue::Queue);

#[pymethods]
impl Queue {
    #[new]
    fn new() -> Self {
        Self(queue::Queue::default())
    }

    /// Adds an SD-JWT to read, and gives its number.
    fn add_sd_jwt(
        &self,
        issuer_jwt: Argument<'_, '_>,
        disclosures: Argument<'_, '_>,
        depth: Argument<'_, '_>,
        digests: Argument<'_, '_>,
    ) -> Option<usize> {
        declining(|| {
            let (issuer_jwt, disclosures) = (issuer_jwt.extract()?, disclosures.extract()?);
            let limits = Limits { depth: depth.extract()?, digests: digests.extract()? };
            Ok(self.0.add(Job::Read { issuer_jwt, disclosures, limits }))
        })
    }

    /// The SD-JWT of this number, when it is read.
    fn sd_jwt(&self, py: Python<'_>, number: Argument<'_, '_>) -> Option<SdJwt> {
        declining(|| {
            let number = number.extract()?;
            Ok(without_lock(py, || self.0.sd_jwt(number)).map(SdJwt))
        })
    }

    /// How many were added.
    #[getter]
    fn count(&self) -> usize {
        self.0.count()
    }

    /// Says that no more are added.
    fn close(&self) {
        self.0.close();
    }

    /// Works until the queue is closed and empty.
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
}

/// An SD-JWT to write: template, salts or nothing to draw them, encoded header, members in the clear that get another value, further members.
type JobOfPython<'py> = (
    PyRef<'py, Template>,
    Option<Bound<'py, PyBytes>>,
    Bound<'py, PyString>,
    Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>,
    Bound<'py, PyBytes>,
);

/// The Issuer-signed JWTs, without signatures if there is no signer, each with its Disclosures and their characters.
#[pyfunction]
fn write<'py>(py: Python<'py>, jobs: Argument<'_, 'py>, signer: Argument<'_, 'py>) -> Option<Bound<'py, PyList>> {
    declining(|| {
        let (jobs, signer): (Vec<JobOfPython<'py>>, Option<PyRef<'_, Signer>>) = (jobs.extract()?, signer.extract()?);
        let signer = signer.as_ref().map(|signer| &signer.0);
        let mut read = Vec::with_capacity(jobs.len());
        for (template, salts, header, names, tail) in &jobs {
            let (template, header, tail) = (&template.0, header.to_str()?, tail.as_bytes());
            let salts = salts.as_ref().map(|salts| salts.as_bytes());
            let names = names.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
            read.push(issue::Job { template, salts, header, names, tail });
        }
        let write = || read.iter().map(|job| job.write(signer)).collect::<Option<Vec<_>>>();
        let Some(written) = without_lock(py, write) else { return Ok(None) };
        let mut made = Vec::with_capacity(written.len());
        for (text, disclosures, size) in written {
            made.push((PyString::new(py, &text), PyTuple::new(py, disclosures)?, size).into_pyobject(py)?);
        }
        PyList::new(py, made).map(Some)
    })
}

/// Names, if it is an object; how many digests it has; whether each item is selective; the numbers of items with
/// treatments inside, and their descriptions; and a JSON array of the others, which has something for these too.
type NodeOfPython<'py> =
    (Option<Vec<Bound<'py, PyString>>>, usize, Vec<bool>, Vec<(usize, Bound<'py, PyAny>)>, Bound<'py, PyBytes>);

fn node(value: &Bound<'_, PyAny>) -> PyResult<Option<issue::Node>> {
    let (names, digests, selective, divided, values): NodeOfPython = value.extract()?;
    let Some(values) = json::elements(values.as_bytes()) else { return Ok(None) };
    if selective.len() != values.len() || names.as_ref().is_some_and(|names| names.len() != values.len()) {
        return Ok(None);
    }
    let (mut items, mut divided) = (Vec::with_capacity(values.len()), divided.iter().peekable());
    for (at, (selective, json)) in selective.into_iter().zip(values).enumerate() {
        let part = match divided.next_if(|(number, _)| *number == at) {
            Some((_, inner)) => node(inner)?.map(Part::Node),
            None => Some(Part::Json(json.to_vec())),
        };
        let name = names.as_ref().map(|names| names[at].to_str()).transpose()?;
        let Some(item) = part.and_then(|part| Item::new(selective, name, part)) else { return Ok(None) };
        items.push(item);
    }
    Ok(divided.next().is_none().then_some(issue::Node { is_array: names.is_none(), digests, items }))
}

/// The template of a plan, from the description of its root.
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
    module.add("queue", module.py().get_type::<Queue>())?;
    module.add_class::<Key>()?;
    module.add_class::<SdJwt>()?;
    module.add_class::<Signer>()?;
    module.add_class::<Template>()?;
    module.add_function(wrap_pyfunction!(read_jws, module)?)?;
    module.add_function(wrap_pyfunction!(read_sd_jwt, module)?)?;
    module.add_function(wrap_pyfunction!(read_key, module)?)?;
    module.add_function(wrap_pyfunction!(signer, module)?)?;
    module.add_function(wrap_pyfunction!(split, module)?)?;
    module.add_function(wrap_pyfunction!(template, module)?)?;
    module.add_function(wrap_pyfunction!(write, module)?)
}
