#include "accrue/dist/etcd.h"

#include <algorithm>
#include <exception>
#include <string_view>
#include <utility>

#include <httplib.h>
#include <nlohmann/json.hpp>
#include <openssl/evp.h>

namespace accrue {
namespace {

using Json = nlohmann::json;

// Its interface of JSON takes keys and values in base64.
std::string encoded(const std::string& text) {
    std::string base64((text.size() + 2) / 3 * 4 + 1, '\0');
    const int length =
        EVP_EncodeBlock(reinterpret_cast<unsigned char*>(base64.data()),
                        reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
    base64.resize(static_cast<size_t>(length));
    return base64;
}

std::string decoded(const std::string& base64) {
    std::string text(base64.size() / 4 * 3, '\0');
    const int length =
        EVP_DecodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                        reinterpret_cast<const unsigned char*>(base64.data()), static_cast<int>(base64.size()));
    if (length < 0) {
        throw Error("etcd answered with a value that is not in base64.");
    }
    const size_t padding = base64.ends_with("==") ? 2 : base64.ends_with('=') ? 1 : 0;
    text.resize(static_cast<size_t>(length) - padding);
    return text;
}

// Numbers of 64 bits are text there, and what is 0 is left out.
int64_t number_in(const Json& json, const char* name) {
    return std::stoll(json.value(name, std::string("0")));
}

std::vector<std::string> parts_of(const std::string& endpoints) {
    std::vector<std::string> parts;
    std::string_view rest = endpoints;
    while (!rest.empty()) {
        const size_t end = std::min(rest.find(','), rest.size());
        std::string part(rest.substr(0, end));
        part.erase(0, part.find_first_not_of(' '));
        while (part.ends_with('/') || part.ends_with(' ')) {
            part.pop_back();
        }
        if (!part.empty()) {
            parts.push_back(part.find("://") == std::string::npos ? cat("http://", part) : part);
        }
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return parts;
}

// What it says of a refusal: JSON with a message, or whatever stands in its place there.
std::string words_of(const httplib::Response& response) {
    const Json answer = Json::parse(response.body, nullptr, false);
    if (answer.is_object() && answer.contains("message") && answer["message"].is_string()) {
        return answer["message"].get<std::string>();
    }
    return cat("HTTP status ", response.status, " ", response.body.substr(0, 200));
}

// Of what it answered; an Error where that is something else than expected.
template <class Read>
auto read_answer(const std::string& text, const Read& read) {
    try {
        return read(Json::parse(text));
    } catch (const Error&) {
        throw;
    } catch (const std::exception& error) {
        throw Error(cat("etcd gave an answer that cannot be read (", error.what(), "): ", text.substr(0, 200)));
    }
}

}  // namespace

struct Etcd::Endpoint {
    Endpoint(std::string url, const std::filesystem::path& certificates, std::chrono::milliseconds patience)
        : name(std::move(url)),
          client(name, certificates.empty() ? std::string() : (certificates / "server.pem").string(),
                 certificates.empty() ? std::string() : (certificates / "server.key").string()) {
        if (!client.is_valid()) {
            throw Error(cat("'", name, "' is no address of an etcd: write it as http://HOST:2379."));
        }
        client.set_connection_timeout(patience);
        client.set_read_timeout(patience);
        client.set_write_timeout(patience);
        client.set_keep_alive(true);
        client.set_tcp_nodelay(true);
        if (!certificates.empty()) {
            client.set_ca_cert_path((certificates / "ca.pem").string());
        }
    }

    std::string name;
    httplib::Client client;
};

Etcd::Etcd(const EtcdOptions& options) {
    for (const std::string& url : parts_of(options.endpoints)) {
        const bool is_https = url.starts_with("https://");
        if (!is_https && !url.starts_with("http://")) {
            throw Error(cat("'", url, "' is no address of an etcd: write it as http://HOST:2379."));
        }
        endpoints_.push_back(std::make_unique<Endpoint>(url, is_https ? options.certificates : std::filesystem::path(),
                                                        options.patience));
    }
    if (endpoints_.empty()) {
        throw Error(cat("'", options.endpoints, "' names no etcd: write http://HOST:2379."));
    }
}

Etcd::~Etcd() = default;

// Each member of a cluster answers for all of it, so whoever is there will do.
std::string Etcd::ask(const std::string& path, const std::string& question) {
    const std::lock_guard lock(mutex_);
    std::string silent;
    for (size_t i = 0; i < endpoints_.size(); ++i) {
        const size_t number = (first_ + i) % endpoints_.size();
        Endpoint& endpoint = *endpoints_[number];
        const httplib::Result result = endpoint.client.Post("/v3/" + path, question, "application/json");
        if (!result) {
            silent += cat(silent.empty() ? "" : "; ", endpoint.name, ": ", httplib::to_string(result.error()));
            continue;
        }
        // A member that is cut off from the others, or is starting, answers with a status of the server's faults.
        if (result->status >= 500) {
            silent += cat(silent.empty() ? "" : "; ", endpoint.name, ": ", words_of(*result));
            continue;
        }
        first_ = number;
        if (result->status != 200) {
            throw Error(cat("etcd at ", endpoint.name, " refused: ", words_of(*result)));
        }
        return result->body;
    }
    throw EtcdSilent(cat("no etcd answers (", silent, ")"));
}

std::optional<Etcd::Value> Etcd::get(const std::string& key) {
    const std::string text = ask("kv/range", Json{{"key", encoded(key)}}.dump());
    return read_answer(text, [](const Json& answer) -> std::optional<Value> {
        const auto found = answer.find("kvs");
        if (found == answer.end() || found->empty()) {
            return std::nullopt;
        }
        const Json& entry = found->at(0);
        return Value{.text = decoded(entry.value("value", "")),
                     .created_at = number_in(entry, "create_revision"),
                     .changed_at = number_in(entry, "mod_revision")};
    });
}

int64_t Etcd::begin_lease(int64_t seconds) {
    const std::string text = ask("lease/grant", Json{{"TTL", std::to_string(seconds)}}.dump());
    return read_answer(text, [](const Json& answer) { return std::stoll(answer.at("ID").get<std::string>()); });
}

bool Etcd::renew_lease(int64_t lease) {
    const std::string text = ask("lease/keepalive", Json{{"ID", std::to_string(lease)}}.dump());
    return read_answer(text, [](const Json& answer) { return number_in(answer.at("result"), "TTL") > 0; });
}

void Etcd::end_lease(int64_t lease) {
    (void)ask("lease/revoke", Json{{"ID", std::to_string(lease)}}.dump());
}

bool Etcd::put_if(const std::vector<Condition>& conditions, const std::vector<Put>& puts) {
    Json question = {{"compare", Json::array()}, {"success", Json::array()}};
    for (const Condition& condition : conditions) {
        const bool is_creation = condition.of == Condition::Of::creation;
        question["compare"].push_back(
            {{"key", encoded(condition.key)},
             {"target", is_creation ? "CREATE" : "MOD"},
             {is_creation ? "create_revision" : "mod_revision", std::to_string(condition.revision)},
             {"result", "EQUAL"}});
    }
    for (const Put& put : puts) {
        Json words = {{"key", encoded(put.key)}, {"value", encoded(put.text)}};
        if (put.lease != 0) {
            words["lease"] = std::to_string(put.lease);
        }
        question["success"].push_back({{"requestPut", words}});
    }
    const std::string text = ask("kv/txn", question.dump());
    return read_answer(text, [](const Json& answer) { return answer.value("succeeded", false); });
}

}  // namespace accrue
