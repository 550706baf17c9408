// Gloo is compiled without the thread sanitizer, which therefore does not see that the destructor of a buffer waits for the
// thread that has just used it.
extern "C" const char* __tsan_default_suppressions() {  // NOLINT: the sanitizer's name
    return "race:gloo::transport::tcp::UnboundBuffer::~UnboundBuffer\n"
           "race:gloo::transport::tcp::UnboundBuffer::handleRecvCompletion\n"
           "race:gloo::transport::tcp::UnboundBuffer::handleSendCompletion\n"
           "race:gloo::transport::tcp::UnboundBuffer::signalException\n";
}
