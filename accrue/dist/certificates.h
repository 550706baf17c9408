#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace accrue {

// Writes what a coordinator and its workers show each other (NetworkSafety in grpc_options.h): an authority of their own, a
// certificate of the coordinator for these host names and addresses, and one that all workers share. Keys can be read by their
// owner alone; that of the authority is not kept, so that nobody can make more certificates. An Error, and nothing is written,
// if the folder holds anything.
void make_certificates(const std::filesystem::path& folder, const std::vector<std::string>& hosts);

// Is this the key of that certificate? Both in PEM form.
[[nodiscard]] bool belong_together(const std::string& certificate, const std::string& key);

// For how long they are good.
inline constexpr int kDaysOfCertificates = 3650;

}  // namespace accrue
