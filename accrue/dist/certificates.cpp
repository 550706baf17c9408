#include "accrue/dist/certificates.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "accrue/base/error.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

constexpr long kSecondsOfDay = 24L * 60 * 60;
constexpr long kVersion3 = 2;
constexpr int kSerialBits = 127;
// Clocks of machines differ.
constexpr long kSecondsBefore = kSecondsOfDay;

template <auto free>
struct Free {
    template <class T>
    void operator()(T* thing) const {
        free(thing);
    }
};
using Key = std::unique_ptr<EVP_PKEY, Free<&EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Free<&X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Free<&X509_EXTENSION_free>>;
using Number = std::unique_ptr<BIGNUM, Free<&BN_free>>;
using Memory = std::unique_ptr<BIO, Free<&BIO_free_all>>;

void require(bool works, const char* what) {
    if (!works) {
        std::array<char, 256> why{};
        ERR_error_string_n(ERR_get_error(), why.data(), why.size());
        throw Error(cat("cannot make ", what, ": ", why.data()));
    }
}

struct Authority {
    const X509* certificate = nullptr;
    EVP_PKEY* key = nullptr;
};

Key new_key() {
    Key key(EVP_EC_gen("P-256"));
    require(key != nullptr, "a key");
    return key;
}

void add_extension(X509* certificate, const X509* issuer, int kind, const std::string& value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, const_cast<X509*>(issuer), certificate, nullptr, nullptr, 0);  // NOLINT: only read
    const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
    require(extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1, "a certificate");
}

// Of an authority: where two have the same, one is taken for the other until its signature does not fit.
std::string new_name() {
    std::array<unsigned char, 8> bytes{};
    require(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1, "a name");
    std::string name = "accrue authority ";
    for (const unsigned char byte : bytes) {
        name += "0123456789abcdef"[byte >> 4];
        name += "0123456789abcdef"[byte & 15];
    }
    return name;
}

// Signed by itself where there is no authority yet.
Certificate new_certificate(const std::string& name, EVP_PKEY* key, const Authority* authority) {
    Certificate certificate(X509_new());
    const Number serial(BN_new());
    X509* const made = certificate.get();
    require(made != nullptr && serial != nullptr && BN_rand(serial.get(), kSerialBits, 0, 0) == 1 &&
                BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(made)) != nullptr &&
                X509_set_version(made, kVersion3) == 1 && X509_set_pubkey(made, key) == 1 &&
                X509_gmtime_adj(X509_getm_notBefore(made), -kSecondsBefore) != nullptr &&
                X509_gmtime_adj(X509_getm_notAfter(made), kDaysOfCertificates * kSecondsOfDay) != nullptr,
            "a certificate");
    X509_NAME* const subject = X509_get_subject_name(made);
    require(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                       reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0) == 1,
            "a certificate's name");
    const X509* const issuer = authority == nullptr ? made : authority->certificate;
    require(X509_set_issuer_name(made, X509_get_subject_name(issuer)) == 1, "a certificate");
    add_extension(made, issuer, NID_subject_key_identifier, "hash");
    if (authority == nullptr) {
        add_extension(made, issuer, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
        add_extension(made, issuer, NID_key_usage, "critical,keyCertSign");
    } else {
        add_extension(made, issuer, NID_basic_constraints, "critical,CA:FALSE");
        add_extension(made, issuer, NID_key_usage, "critical,digitalSignature");
    }
    return certificate;
}

void sign(X509* certificate, EVP_PKEY* key) {
    require(X509_sign(certificate, key, EVP_sha256()) > 0, "a signature");
}

bool is_number(const std::string& host) {
    std::array<unsigned char, sizeof(in6_addr)> bytes{};
    return inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 || inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

// "IP:10.0.0.7,DNS:desk".
std::string names_text(const std::vector<std::string>& hosts) {
    std::string text;
    for (const std::string& host : hosts) {
        if (host.empty() || (!is_number(host) && host.find_first_of(",;:/ \t\n\\\"") != std::string::npos)) {
            throw Error(cat("'", host, "' is neither a host name nor an address, for which a certificate could be."));
        }
        text += cat(text.empty() ? "" : ",", is_number(host) ? "IP:" : "DNS:", host);
    }
    return text;
}

template <class Write>
std::string pem_of(const Write& write) {
    const Memory memory(BIO_new(BIO_s_mem()));
    require(memory != nullptr && write(memory.get()) == 1, "a file in PEM form");
    char* text = nullptr;
    const long length = BIO_get_mem_data(memory.get(), &text);
    return {text, static_cast<size_t>(length)};
}

std::string pem_of(X509* certificate) {
    return pem_of([&](BIO* out) { return PEM_write_bio_X509(out, certificate); });
}

std::string pem_of(EVP_PKEY* key) {
    return pem_of(
        [&](BIO* out) { return PEM_write_bio_PKCS8PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr); });
}

// That was not there before: no other user may have opened it.
void write_new(const fs::path& path, std::string_view text, mode_t mode) {
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    const bool works = file >= 0 && write(file, text.data(), text.size()) == std::ssize(text) && fsync(file) == 0;
    const int error = errno;
    if (file >= 0) {
        close(file);
    }
    if (!works) {
        throw Error(cat(path.string(), " cannot be written: ", std::strerror(error)));
    }
}

void take_empty_folder(const fs::path& folder) {
    std::error_code failure;
    if (fs::exists(folder, failure) && (!fs::is_directory(folder, failure) || !fs::is_empty(folder, failure))) {
        throw Error(cat(folder.string(),
                        " is there already and is not an empty folder. Nothing is replaced: choose "
                        "another, or remove it first."));
    }
    fs::create_directories(folder, failure);
    if (failure) {
        throw Error(cat("cannot make the folder ", folder.string(), ": ", failure.message()));
    }
}

}  // namespace

bool belong_together(const std::string& certificate, const std::string& key) {
    const auto memory_of = [](const std::string& text) {
        return Memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
    };
    const Memory certificate_text = memory_of(certificate);
    const Memory key_text = memory_of(key);
    const Certificate read(PEM_read_bio_X509(certificate_text.get(), nullptr, nullptr, nullptr));
    const Key read_key(PEM_read_bio_PrivateKey(key_text.get(), nullptr, nullptr, nullptr));
    const bool is_its_key =
        read != nullptr && read_key != nullptr && X509_check_private_key(read.get(), read_key.get()) == 1;
    ERR_clear_error();
    return is_its_key;
}

void make_certificates(const fs::path& folder, const std::vector<std::string>& hosts) {
    const std::string names = names_text(hosts);
    const Key authority_key = new_key();
    const Certificate authority = new_certificate(new_name(), authority_key.get(), nullptr);
    sign(authority.get(), authority_key.get());
    const Authority signs{.certificate = authority.get(), .key = authority_key.get()};
    take_empty_folder(folder);
    write_new(folder / "ca.pem", pem_of(authority.get()), 0644);
    for (const std::string side : {"server", "worker"}) {
        const Key key = new_key();
        const Certificate certificate = new_certificate("accrue " + side, key.get(), &signs);
        if (side == "server") {
            add_extension(certificate.get(), signs.certificate, NID_subject_alt_name, names);
        }
        add_extension(certificate.get(), signs.certificate, NID_ext_key_usage,
                      side == "server" ? "serverAuth" : "clientAuth");
        sign(certificate.get(), signs.key);
        write_new(folder / (side + ".key"), pem_of(key.get()), 0600);
        write_new(folder / (side + ".pem"), pem_of(certificate.get()), 0644);
    }
}

}  // namespace accrue
