#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

namespace accrue {

// The keys of a JSON object with types checked; null is taken as absent. Errors name where the object is from, key and
// value.
class ConfigFields {
public:
    // `prefix` stands before keys in errors ("rope_scaling."). An error if `json` is no object.
    ConfigFields(nlohmann::json json, std::string where, std::string prefix = "");
    // Of a text, which may be no JSON at all.
    [[nodiscard]] static ConfigFields parse(std::string_view text, const std::string& where);

    // Is a key there, even as null?
    [[nodiscard]] bool names(const std::string& key) const { return json_.contains(key); }
    // Is a key there with a value?
    [[nodiscard]] bool has(const std::string& key) const { return names(key) && !json_[key].is_null(); }

    // A size: from 1 up to what an int32 holds.
    [[nodiscard]] int64_t size(const std::string& key, int64_t otherwise) const;
    [[nodiscard]] double number(const std::string& key, double otherwise) const;
    [[nodiscard]] double positive(const std::string& key, double otherwise) const;
    // A probability of dropping: at least 0 and below 1.
    [[nodiscard]] float dropout(const std::string& key, double otherwise) const;
    [[nodiscard]] bool truth(const std::string& key, bool otherwise) const;
    [[nodiscard]] std::string text(const std::string& key, const std::string& otherwise) const;
    [[nodiscard]] ConfigFields object(const std::string& key) const;
    [[nodiscard]] const nlohmann::json& value(const std::string& key) const { return json_.at(key); }

    // An error "where: key is value, but reason".
    [[noreturn]] void refuse(const std::string& key, const std::string& reason) const;
    // Refuses a key that is there with another value than the one that is supported.
    void require(const std::string& key, const nlohmann::json& supported) const;
    // Refuses a key that is absent.
    void require_named(const std::string& key, const std::string& reason) const;

    [[nodiscard]] const std::string& where() const { return where_; }

private:
    nlohmann::json json_;
    std::string where_;
    std::string prefix_;
};

}  // namespace accrue
