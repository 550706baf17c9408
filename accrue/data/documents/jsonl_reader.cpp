#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/data/documents/chat_format.h"
#include "accrue/data/documents/document_readers.h"

namespace accrue {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kExpected =
    R"(Each line must be an object with "text", with "prompt" and "completion", or with "messages".)";

// The lines of a stream, of any length.
class LineReader {
public:
    explicit LineReader(std::unique_ptr<InputStream> stream) : stream_(std::move(stream)) {}

    // The next line without its end; false if there is none.
    bool next(std::string& line) {
        line.clear();
        bool has_line = false;
        while (begin_ < end_ || refill()) {
            has_line = true;
            const char* const first = buffer_.data() + begin_;
            const void* const found = std::memchr(first, '\n', end_ - begin_);
            const size_t length = found == nullptr ? end_ - begin_ : static_cast<const char*>(found) - first;
            line.append(first, length);
            begin_ += length;
            if (found != nullptr) {
                ++begin_;
                break;
            }
        }
        return has_line;
    }

    [[nodiscard]] const std::string& name() const { return stream_->name(); }

private:
    bool refill() {
        begin_ = 0;
        end_ = stream_->read(buffer_);
        return end_ > 0;
    }

    std::unique_ptr<InputStream> stream_;
    std::vector<char> buffer_ = std::vector<char>(size_t{1} << 18);
    size_t begin_ = 0;
    size_t end_ = 0;
};

// A field that must be a string; `owner` says of what.
const std::string& string_of(const Json& object, const char* key, const std::string& owner) {
    const auto found = object.find(key);
    if (found == object.end()) {
        throw Error(cat(owner, " has no \"", key, "\", and a string is needed."));
    }
    if (!found->is_string()) {
        throw Error(cat("\"", key, "\" of ", owner, " is ", found->type_name(), ", and a string is needed."));
    }
    return found->get_ref<const std::string&>();
}

void append_text(Document& document, const std::string& text, bool counted) {
    if (!text.empty()) {
        document.parts.push_back({.text = text, .ids = {}, .counted = counted});
    }
}

void append_messages(Document& document, const Json& messages, ChatFormat format) {
    if (!messages.is_array() || messages.empty()) {
        throw Error(cat("\"messages\" is ", messages.is_array() ? "an empty list" : messages.type_name(),
                        R"(, and a list of {"role": ..., "content": ...} is needed.)"));
    }
    for (size_t index = 0; index < messages.size(); ++index) {
        const std::string owner = cat("message ", index + 1);
        if (!messages[index].is_object()) {
            throw Error(
                cat(owner, " is ", messages[index].type_name(), R"(, and {"role": ..., "content": ...} is needed.)"));
        }
        const std::string& name = string_of(messages[index], "role", owner);
        const std::optional<ChatRole> role = chat_role_of(name);
        if (!role) {
            throw Error(cat("the role of ", owner, " is \"", name.substr(0, 40),
                            "\", and system, user or assistant is needed."));
        }
        append_turn(document, format, *role, string_of(messages[index], "content", owner));
    }
}

Json parse(const std::string& line) {
    const size_t bad = find_no_utf8(line);
    if (bad != std::string::npos) {
        throw Error(
            cat("byte ", bad + 1, " of the line is not UTF-8. Convert the file to UTF-8, for example with iconv."));
    }
    try {
        Json object = Json::parse(line);
        if (object.is_object()) {
            return object;
        }
        throw Error(cat("the line is ", object.type_name(), ". ", kExpected));
    } catch (const Json::parse_error& fault) {
        throw Error(cat("the line is not JSON: it cannot be read at byte ", fault.byte, ". ", kExpected));
    } catch (const Json::out_of_range&) {
        throw Error("a number in the line is larger than any double. Write a smaller one, or leave its field out.");
    }
}

// No damage of the line: nothing to be skipped.
struct NoChatFormat {};

Document document_of(const std::string& line, std::optional<ChatFormat> format) {
    const Json object = parse(line);
    Document document;
    if (object.contains("messages")) {
        if (!format) {
            throw NoChatFormat();
        }
        append_messages(document, object["messages"], *format);
    } else if (object.contains("completion") || (object.contains("prompt") && !object.contains("text"))) {
        append_text(document, string_of(object, "prompt", "the line"), false);
        append_text(document, string_of(object, "completion", "the line"), true);
    } else if (object.contains("text")) {
        append_text(document, string_of(object, "text", "the line"), true);
    } else {
        throw Error(cat("the line has none of the known fields. ", kExpected));
    }
    return document;
}

bool is_blank(const std::string& line) {
    return line.find_first_not_of(" \t\r") == std::string::npos;
}

// A document per line.
class JsonlReader final : public DocumentReader {
public:
    JsonlReader(std::unique_ptr<InputStream> stream, const ReaderOptions& options)
        : lines_(std::move(stream)),
          format_(options.chat_fault.empty() ? std::optional(chat_format_of(options.chat_format)) : std::nullopt),
          chat_fault_(options.chat_fault),
          skip_bad_(options.skip_bad) {}

    bool next(Document& document) override {
        while (next_line()) {
            if (!is_blank(line_) && read_line(document) && !document.parts.empty()) {
                found_ = true;
                return true;
            }
        }
        if (!found_ && !skip_bad_) {
            throw Error(cat(lines_.name(), " is empty: no line has a document. ", kExpected));
        }
        return false;
    }

    [[nodiscard]] int64_t skipped() const override { return skipped_; }

private:
    bool next_line() {
        if (!lines_.next(line_)) {
            return false;
        }
        if (++number_ == 1 && line_.starts_with(kByteOrderMark)) {
            line_.erase(0, kByteOrderMark.size());
        }
        return true;
    }

    // False if the line is damaged and was skipped.
    bool read_line(Document& document) {
        try {
            document = document_of(line_, format_);
            return true;
        } catch (const NoChatFormat&) {
            throw Error(cat(lines_.name(), ", line ", number_,
                            " is a conversation, but it is not known how to write it: ", chat_fault_));
        } catch (const Error& error) {
            if (!skip_bad_) {
                throw Error(cat(lines_.name(), ", line ", number_, ": ", error.what(),
                                " Mend the line, or set data.skip_bad = true to leave such lines out."));
            }
            ++skipped_;
            return false;
        }
    }

    LineReader lines_;
    std::optional<ChatFormat> format_;
    std::string chat_fault_;
    bool skip_bad_;
    std::string line_;
    int64_t number_ = 0;
    int64_t skipped_ = 0;
    bool found_ = false;
};

}  // namespace

std::unique_ptr<DocumentReader> read_jsonl_documents(std::unique_ptr<InputStream> stream,
                                                     const ReaderOptions& options) {
    return std::make_unique<JsonlReader>(std::move(stream), options);
}

}  // namespace accrue
