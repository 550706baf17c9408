#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace accrue {

// What a Jinja template makes of variables, with the white space rules that Hugging Face sets for chat templates
// (trim_blocks, lstrip_blocks). Only the part of Jinja that chat templates use for plain messages is known: for, if,
// set, namespaces, strings, comparisons and a few filters, tests and methods. Whatever else a template comes upon is an
// error that names it, also raise_exception() and a template that takes too long; what stands in a branch that is not
// taken does no harm.
[[nodiscard]] std::string render_jinja(std::string_view source, const nlohmann::json& variables);

}  // namespace accrue
