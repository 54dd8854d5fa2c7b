// An HTTP answer that tells what became of it.
#pragma once

#include <functional>
#include <memory>

#include "coordinator/http_server.h"

namespace colibri {

// Called once, on whichever thread ends the answer: its status (0: it was given up before it
// began) and the seconds since measured_reply().
using OnAnswered = std::function<void(int status, double seconds)>;

// Passes all on to `reply`.
std::shared_ptr<HttpReply> measured_reply(std::shared_ptr<HttpReply> reply, OnAnswered on_answered);

}  // namespace colibri
