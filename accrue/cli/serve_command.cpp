#include "accrue/cli/serve_command.h"

#include <array>

#include <fmt/ranges.h>
#include <unistd.h>

#include "accrue/cli/train_options.h"
#include "accrue/cli/work_command.h"
#include "accrue/dist/certificates.h"
#include "accrue/dist/own_address.h"
#include "accrue/observe/status_line.h"

namespace accrue {
namespace {

// By which workers may call this machine.
std::vector<std::string> names_of_this_machine() {
    std::vector<std::string> names = {"localhost", "127.0.0.1", "::1"};
    if (const std::string name = host_name(); !name.empty() && name != names.front()) {
        names.push_back(name);
    }
    const std::vector<std::string> addresses = addresses_of_this_machine();
    names.insert(names.end(), addresses.begin(), addresses.end());
    return names;
}

ExitCode write_certificates(const ServeCommand& command) {
    const std::vector<std::string> hosts = command.hosts.empty() ? names_of_this_machine() : command.hosts;
    const std::string folder = command.make_certificates.string();
    make_certificates(command.make_certificates, hosts);
    show(stdout,
         fmt::format("{} has certificates of a coordinator at {}, good for {} years.\n"
                     "Here:            accrue serve job.toml --listen ADDRESS:PORT --set workers.certificates={}\n"
                     "For each worker: copy ca.pem, worker.pem and worker.key into a folder that only its user "
                     "can read, then\n"
                     "                 accrue work --join ADDRESS:PORT --certificates FOLDER\n",
                     folder, fmt::join(hosts, ", "), kDaysOfCertificates / 365, folder));
    return ExitCode::done;
}

}  // namespace

CLI::App* add_serve_command(CLI::App& app, ServeCommand& command, ExitCode& code) {
    auto* serve = app.add_subcommand("serve", "Lead a run that workers on other machines compute (accrue work)");
    serve
        ->add_option("--listen", command.train.listen,
                     "Where workers join: an address of this machine (0.0.0.0 = all of them) and a port (0 = any)")
        ->type_name("ADDRESS:PORT");
    serve
        ->add_option("--workers", command.train.workers,
                     "So many the first window waits for; they may come and go at any time")
        ->default_val(1)
        ->check(CLI::Range(1, 10'000));
    serve
        ->add_option(
            "--etcd", command.train.etcd,
            "Several accrue serve of one job, whose run.folder all can reach: one leads, the others stand by, and take "
            "over when it is gone; they agree in this etcd (more than one, with commas between)")
        ->type_name("URL");
    serve
        ->add_option("--health", command.train.health,
                     "Answer GET /health there, for service managers and clusters: status 200 and a line")
        ->type_name("ADDRESS:PORT");
    serve
        ->add_option("--make-certificates", command.make_certificates,
                     "Write the certificates of a coordinator and its workers into a new folder, and nothing else")
        ->type_name("FOLDER");
    serve
        ->add_option("--host", command.hosts,
                     "With --make-certificates: a name or address by which workers call the coordinator (repeatable); "
                     "without, those of this machine")
        ->type_name("NAME")
        ->allow_extra_args(false);
    add_train_options(*serve, command.train);
    serve->callback([&command, &code] {
        if (!command.make_certificates.empty()) {
            code = write_certificates(command);
            return;
        }
        if (command.train.listen.empty()) {
            throw CLI::RequiredError("--listen");
        }
        code = run_train(command.train);
    });
    return serve;
}

}  // namespace accrue
