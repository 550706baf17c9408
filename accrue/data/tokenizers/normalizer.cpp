#include <utility>

#include "accrue/data/tokenizers/text_steps.h"

namespace accrue {

Normalizer prepend_step(std::string prefix) {
    return {.rewrite = [prefix =
                            std::move(prefix)](const std::string& text) { return text.empty() ? text : prefix + text; },
            .is_prefix = true};
}

Normalizer replace_step(std::string from, std::string to) {
    return {[from = std::move(from), to = std::move(to)](const std::string& text) {
        std::string result;
        result.reserve(text.size());
        size_t taken = 0;
        for (size_t found = text.find(from); found != std::string::npos; found = text.find(from, taken)) {
            result.append(text, taken, found - taken);
            result += to;
            taken = found + from.size();
        }
        return result.append(text, taken);
    }};
}

Normalizer replace_step(Pattern from, std::string to) {
    const auto pattern = std::make_shared<const Pattern>(std::move(from));
    return {[pattern, to = std::move(to)](const std::string& text) {
        const std::string seen = with_invalid_bytes_replaced(text);
        std::string result;
        size_t taken = 0;
        for (const Pattern::Match& match : pattern->find_all(seen)) {
            result.append(text, taken, match.begin - taken);
            result += to;
            taken = match.end;
        }
        return result.append(text, taken);
    }};
}

Normalizer normal_form_step(NormalForm form) {
    return {[form](const std::string& text) { return normalized(text, form); }};
}

}  // namespace accrue
