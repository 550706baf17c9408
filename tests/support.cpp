#include "tests/support.h"

#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "accrue/base/file.h"
#include "accrue/base/random.h"
#include "accrue/base/test_places.h"
#include "accrue/observe/metric_table.h"
#include "accrue/tensor/safetensors.h"
#include "accrue/train/initial_weights.h"

namespace accrue::testing {

namespace fs = std::filesystem;

fs::path golden(const std::string& name) {
    return source_folder() / "tests" / "golden" / name;
}

std::string accrue_program() {
    return program_under_test(ACCRUE_PROGRAM).string();
}

void write_ragged_data(const fs::path& file, const RaggedData& data) {
    std::vector<int64_t> ids;
    std::vector<int64_t> labels;
    for (int64_t sample = 0; sample < data.samples; ++sample) {
        const auto draw = [&](uint64_t place) { return mix(data.seed, static_cast<uint64_t>(sample), place); };
        const int64_t length =
            draw(1000) % 3 == 0 ? data.tokens : 3 + static_cast<int64_t>(draw(1001) % (data.tokens - 2));
        const int64_t masked = draw(1002) % 2 == 0 ? 0 : static_cast<int64_t>(draw(1003) % 3);
        for (int64_t place = 0; place < data.tokens; ++place) {
            const auto id =
                static_cast<int64_t>(draw(static_cast<uint64_t>(place)) % static_cast<uint64_t>(data.vocabulary));
            ids.push_back(place < length ? id : 0);
            labels.push_back(place >= length || place < masked || sample == 3 ? -100 : id);
        }
    }
    const std::vector<int64_t> shape = {data.samples, data.tokens};
    write_safetensors(file, {{"input_ids", "I64", shape, std::as_bytes(std::span(ids))},
                             {"labels", "I64", shape, std::as_bytes(std::span(labels))}});
}

void copy_model(const std::string& golden_name, const fs::path& to,
                const std::map<std::string, std::string>& config_values,
                const std::function<void(const std::string&, std::vector<float>&)>& edit) {
    fs::create_directories(to);
    auto config = nlohmann::json::parse(read_text(golden(golden_name) / "config.json"));
    for (const auto& [key, value] : config_values) {
        config[key] = nlohmann::json::parse(value);
    }
    write_text(to / "config.json", config.dump(2));
    const SafetensorsFile source(golden(golden_name) / "model.safetensors");
    std::map<std::string, std::vector<float>> values;
    std::vector<TensorToStore> tensors;
    for (const auto& [name, tensor] : source.tensors()) {
        std::vector<float>& here = values[name];
        here.resize(static_cast<size_t>(tensor.elements()));
        source.read_floats(name, here);
        if (edit) {
            edit(name, here);
        }
        tensors.push_back({name, "F32", tensor.shape, std::as_bytes(std::span(here))});
    }
    write_safetensors(to / "model.safetensors", tensors);
}

std::string tokenizer_of_letters(const std::vector<std::string>& marks) {
    using Json = nlohmann::json;
    Json vocabulary = {{"Ġ", 0}, {"Ċ", 1}};  // how byte-level tokenizers spell a space and a line end
    for (char letter = '!'; letter <= '~'; ++letter) {
        vocabulary[std::string(1, letter)] = vocabulary.size();
    }
    Json added = Json::array();
    for (const std::string& mark : marks) {
        added.push_back({{"id", vocabulary.size() + added.size()},
                         {"content", mark},
                         {"special", true},
                         {"single_word", false},
                         {"lstrip", false},
                         {"rstrip", false},
                         {"normalized", false}});
    }
    const Json byte_level = {
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
    return Json{{"version", "1.0"},
                {"truncation", nullptr},
                {"padding", nullptr},
                {"added_tokens", added},
                {"normalizer", nullptr},
                {"pre_tokenizer", byte_level},
                {"post_processor", nullptr},
                {"decoder", byte_level},
                {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}}}
        .dump();
}

namespace {

constexpr int64_t kArenaBytes = int64_t{256} << 20;

}  // namespace

TestRun::TestRun(const Settings& settings, int threads, const ModelFamilies& families)
    : inputs(open_inputs(settings, nullptr, families)),
      pool(threads),
      arena(make_backing(device_of(inputs.settings.compute), kArenaBytes)),
      kernels(make_kernels(device_of(inputs.settings.compute), pool, arena)),
      engine(inputs.settings, inputs.model, inputs.longest_sample(), *kernels),
      loader(*inputs.train, sample_order_of(settings, inputs.train->size())),
      batches(loader,
              [this](const DataPosition& position) { return loader.window_from(position, engine.rules.window); }) {
    load_initial_weights(engine, settings);
}

Window TestRun::window() const {
    return loader.window_from(engine.state.position, engine.rules.window);
}

std::optional<StepReport> TestRun::step() {
    return run_step(engine, batches, window(), stop);
}

std::optional<StepReport> TestRun::step(const Workers& workers) {
    return run_step(engine, workers, batches, window(), stop);
}

std::string TestRun::run(int64_t steps) {
    while (engine.state.step < steps) {
        (void)step();
    }
    return engine.weights_hash();
}

std::vector<double> TestRun::mean_gradient(int64_t parameter) const {
    return numbers_of(*kernels, engine.sum.mean().of(parameter));
}

std::vector<float> TestRun::weights_of(const Parameter& parameter) const {
    return downloaded(*kernels, engine.weights.master.slice_columns(parameter.offset, parameter.elements()));
}

TokenBatch StoppingLoader::load(const Window& window, std::span<const int64_t> grains) const {
    run_.stop = ++loads_ == last_;
    return run_.loader.load(window, grains);
}

TokenBatch StopsInside::load(const Window& window, std::span<const int64_t> grains) const {
    run_.stop = run_.engine.state.open.has_value();  // before, a step looks at one grain to find the first units
    return run_.loader.load(window, grains);
}

DeviceName device_of_fp16() {
    const DeviceName usual = usual_device();
    return usual.kind == DeviceKind::cuda ? usual : DeviceName(DeviceKind::reference);
}

Settings small_settings(const fs::path& model, const fs::path& data) {
    Settings settings;
    settings.model.preset = "";
    settings.model.from = model.string();
    settings.data.train = {data.string()};
    settings.data.order = SampleOrder::Kind::shuffled;
    settings.window.samples = 7;
    settings.window.grain_samples = 2;
    settings.window.micro_batch_grains = 1;
    settings.optimizer.rate = 1e-2;
    settings.schedule = {.kind = Schedule::Kind::constant, .steps = 20, .warmup_steps = 0};
    settings.compute.dtype = DType::fp32;
    settings.run.evaluate_steps = 0;
    return settings;
}

namespace {

struct Child {
    pid_t pid = -1;
    int output = -1;
};

void join(const fs::path& control_group) {
    if (!control_group.empty()) {
        std::ofstream(control_group / "cgroup.procs") << getpid() << std::flush;
    }
}

// In the child. What the test itself was started with (nohup, a shell's background) must not matter.
void prepare(const ProgramSetup& setup) {
    for (const int signal : {SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGXFSZ}) {
        std::signal(signal, SIG_DFL);
    }
    for (const int signal : setup.ignored_signals) {
        std::signal(signal, SIG_IGN);
    }
    if (setup.output == ProgramSetup::Output::closed) {
        std::array<int, 2> ends{};
        if (pipe(ends.data()) == 0) {
            dup2(ends[1], STDOUT_FILENO);
            close(ends[0]);
            close(ends[1]);
        }
    } else if (setup.output == ProgramSetup::Output::full_disk) {
        dup2(open("/dev/full", O_WRONLY), STDOUT_FILENO);
    }
    if (setup.largest_file >= 0) {
        const auto bytes = static_cast<rlim_t>(setup.largest_file);
        const struct rlimit limit = {.rlim_cur = bytes, .rlim_max = bytes};
        setrlimit(RLIMIT_FSIZE, &limit);
    }
}

Child start(std::string program, const std::vector<std::string>& arguments, const fs::path& folder,
            const fs::path& control_group = {}, const ProgramSetup& setup = {}) {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) {
        std::abort();
    }
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        prepare(setup);
        std::vector<char*> words;
        words.push_back(program.data());
        std::vector<std::string> copies = arguments;
        for (std::string& argument : copies) {
            words.push_back(argument.data());
        }
        words.push_back(nullptr);
        join(control_group);
        if (chdir(folder.c_str()) == 0) {
            execv(program.c_str(), words.data());
        }
        _exit(127);
    }
    close(ends[1]);
    return {.pid = pid, .output = ends[0]};
}

ProgramResult wait_for(const Child& child) {
    ProgramResult result;
    std::array<char, 4096> piece{};
    for (ssize_t got = 0; (got = read(child.output, piece.data(), piece.size())) > 0;) {
        result.output.append(piece.data(), static_cast<size_t>(got));
    }
    close(child.output);
    int status = 0;
    struct rusage usage {};
    wait4(child.pid, &status, 0, &usage);
    result.peak_bytes = usage.ru_maxrss * 1024;
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return result;
}

}  // namespace

ProgramResult run_program(const std::vector<std::string>& arguments, const fs::path& folder,
                          const fs::path& control_group) {
    return wait_for(start(accrue_program(), arguments, folder, control_group));
}

ProgramResult run_program(const std::vector<std::string>& arguments, const ProgramSetup& setup) {
    return wait_for(start(accrue_program(), arguments, ".", {}, setup));
}

ProgramResult run_program_at(const fs::path& program, const std::vector<std::string>& arguments) {
    return wait_for(start(program.string(), arguments, "."));
}

ProgramResult signal_program(const std::vector<std::string>& arguments, int signal, const std::function<bool()>& ready,
                             const ProgramSetup& setup) {
    const Child child = start(accrue_program(), arguments, ".", {}, setup);
    for (siginfo_t info{}; info.si_pid != child.pid && !ready();) {
        waitid(P_PID, static_cast<id_t>(child.pid), &info, WEXITED | WNOHANG | WNOWAIT);  // has it ended by itself?
        std::this_thread::yield();
    }
    kill(child.pid, signal);
    return wait_for(child);
}

std::string sha256_of(const fs::path& file) {
    const std::string command = "sha256sum '" + file.string() + "'";
    std::array<char, 64> digits{};
    FILE* pipe = popen(command.c_str(), "r");
    const size_t got = fread(digits.data(), 1, digits.size(), pipe);
    pclose(pipe);
    return {digits.data(), got};
}

std::vector<std::string> comparable_metrics(const fs::path& file, MicroBatches micro_batches) {
    std::vector<std::string> lines;
    std::ifstream input(file);
    for (std::string line; std::getline(input, line);) {
        auto json = nlohmann::ordered_json::parse(line);
        for (const Metric& metric : Metrics::kAll) {
            const bool is_compared =
                metric.varies == Metric::Varies::never ||
                (metric.varies == Metric::Varies::with_cut && micro_batches == MicroBatches::compare);
            if (!is_compared) {
                json.erase(metric.name);
            }
        }
        lines.push_back(json.dump());
    }
    return lines;
}

}  // namespace accrue::testing
