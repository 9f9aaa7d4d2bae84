//! What all hosts of this process share: the account, the directory, and the way to the front.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::Duration;

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use certificates::challenges::Answers;
use instant_acme::{Account, ExternalAccountKey, NewAccount};
use tokio::sync::{Mutex, Semaphore, watch};
use tokio::time::{sleep, timeout};

use crate::answers::{self, Maker, SPREAD};
use crate::client::Client;
use crate::environment::{Settings, say};
use crate::fault::{Fault, persist};
use crate::lease::Leases;
use crate::storage::{self, Storage};

/// Certificates that are ordered at once.
const ORDERS: usize = 4;
/// How long the front may take to take what it is to tell.
const FRONT: Duration = Duration::from_secs(10);
/// How long another server may take to make the account.
const ACCOUNT: u32 = 60;
/// Keys of external accounts come with padding and without.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The way to the front, by the supervisor. The socket belongs to the crate `supervisor`, which this one does not use.
pub trait Link {
    /// Sends what authorities are to be told, as JSON.
    fn send_answers(&self, number: u64, text: &[u8]) -> io::Result<()>;
    /// Says that there is a new certificate.
    fn send_issued(&self) -> io::Result<()>;
    /// The number of what the front has taken; `None`: nothing has come. An error of kind `UnexpectedEof`: the supervisor is gone.
    fn receive(&self) -> io::Result<Option<u64>>;
    /// What to wait on.
    fn descriptor(&self) -> BorrowedFd<'_>;
}

/// What all hosts share.
pub struct Context {
    /// What is to be ordered, where and how.
    pub settings: Settings,
    /// The directory.
    pub storage: Storage,
    /// HTTP to the authority.
    pub client: Client,
    /// Who may order what.
    pub leases: Leases,
    /// Permits for orders.
    pub orders: Semaphore,
    /// The way to the front.
    pub link: Rc<dyn Link>,
    account: Mutex<Option<Account>>,
    maker: RefCell<Maker>,
    sent: RefCell<Option<Answers>>,
    number: Cell<u64>,
    taken: watch::Sender<u64>,
}

impl Context {
    /// Before anything is known.
    pub fn new(settings: Settings, link: Rc<dyn Link>) -> Result<Context, Fault> {
        Ok(Context {
            storage: Storage::open(&settings.storage)?,
            client: Client::new(settings.ca.as_deref()).map_err(Fault)?,
            settings,
            leases: Leases::default(),
            orders: Semaphore::new(ORDERS),
            link,
            account: Mutex::default(),
            maker: RefCell::default(),
            sent: RefCell::default(),
            number: Cell::new(0),
            taken: watch::Sender::new(0),
        })
    }

    /// Sends the front what it is to tell, if that has changed.
    pub fn refresh(&self) -> Result<(), Fault> {
        let made = self.maker.borrow_mut().make(&self.settings, &self.storage)?;
        if self.sent.borrow().as_ref() == Some(&made) {
            return Ok(());
        }
        let text = serde_json::to_vec(&made).map_err(io::Error::from)?;
        let number = self.number.get() + 1;
        self.link.send_answers(number, &text)?;
        self.number.set(number);
        self.sent.replace(Some(made));
        Ok(())
    }

    /// The same, and waits until the front tells it.
    pub async fn publish(&self) -> Result<(), Fault> {
        self.refresh()?;
        let number = self.number.get();
        let mut taken = self.taken.subscribe();
        match timeout(FRONT, taken.wait_for(|taken| *taken >= number)).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(Fault("the front of this server has not taken the response to the authority".to_owned())),
        }
    }

    /// The front has taken something.
    pub fn was_taken(&self, number: u64) {
        self.taken.send_replace(number);
    }

    /// The account with the authority. If there is none, it is made, by one of the servers that share the directory.
    pub async fn account(&self) -> Result<Account, Fault> {
        let mut known = self.account.lock().await;
        if let Some(account) = &*known {
            return Ok(account.clone());
        }
        let account = match self.kept_account().await? {
            Some(account) => account,
            None => self.shared_account().await?,
        };
        *known = Some(account.clone());
        Ok(account)
    }

    /// Forgets an account that the authority does not know any more.
    pub async fn forget_account(&self) -> Result<(), Fault> {
        *self.account.lock().await = None;
        Ok(storage::remove(&self.storage.account(&self.settings.directory))?)
    }

    async fn kept_account(&self) -> Result<Option<Account>, Fault> {
        let path = self.storage.account(&self.settings.directory);
        let Some(kept) = storage::read_json::<answers::Account>(&path)? else { return Ok(None) };
        let restore = async || {
            let credentials = serde_json::from_value(kept.credentials.clone())?;
            Account::builder_with_http(Box::new(self.client.clone())).from_credentials(credentials).await
        };
        Ok(Some(persist(restore).await?))
    }

    async fn shared_account(&self) -> Result<Account, Fault> {
        let path = self.storage.lease("account");
        for _ in 0..ACCOUNT {
            if let Some(lease) = self.leases.take(&path)? {
                if let Some(account) = self.kept_account().await? {
                    return Ok(account);
                }
                let account = self.make_account().await?;
                drop(lease);
                return Ok(account);
            }
            sleep(Duration::from_secs(1)).await;
            if let Some(account) = self.kept_account().await? {
                return Ok(account);
            }
        }
        Err(Fault(format!("another server has not made the account within {ACCOUNT} s")))
    }

    async fn make_account(&self) -> Result<Account, Fault> {
        let contact: Vec<String> = self.settings.contact.iter().map(|address| format!("mailto:{address}")).collect();
        let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
        let external = self.external_account()?;
        let new = NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
        let make = async || {
            let builder = Account::builder_with_http(Box::new(self.client.clone()));
            builder.create(&new, self.settings.directory.clone(), external.as_ref()).await
        };
        let (account, credentials) = persist(make).await?;
        let thumbprint = account.key_thumbprint().to_owned();
        let credentials = serde_json::to_value(&credentials).map_err(io::Error::from)?;
        let path = self.storage.account(&self.settings.directory);
        storage::write_json(&path, &answers::Account { credentials, thumbprint })?;
        say("notice", format_args!("an account was made with {}", self.settings.directory));
        // Each server tells the authority what belongs to this account, so each has to know it.
        self.publish().await?;
        sleep(SPREAD).await;
        Ok(account)
    }

    fn external_account(&self) -> Result<Option<ExternalAccountKey>, Fault> {
        let Some((id, path)) = &self.settings.external_account else { return Ok(None) };
        let text =
            storage::read(path)?.ok_or_else(|| Fault(format!("eab_key_file {} is not there", path.display())))?;
        let key = BASE64.decode(text.trim());
        let key = key.map_err(|error| Fault(format!("eab_key_file {} is no base64url: {error}", path.display())))?;
        Ok(Some(ExternalAccountKey::new(id.clone(), &key)))
    }
}
