#include "coordinator/page.h"

#include <string>

namespace colibri {
namespace {

std::string policy() {
  std::string text = "default-src 'none'; connect-src 'self'; img-src 'self'; script-src ";
  text.append(kPageScriptHash).append("; style-src ").append(kPageStyleHash);
  return text + "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
}

}  // namespace

void send_page(HttpReply& reply) {
  // Another version of the program may stand at this address tomorrow: a browser asks again.
  reply.send(200,
             {{"Content-Type", "text/html; charset=utf-8"},
              {"Content-Security-Policy", policy()},
              {"X-Content-Type-Options", "nosniff"},
              {"Referrer-Policy", "no-referrer"},
              {"Cache-Control", "no-cache"}},
             std::string(kPageHtml));
}

void send_no_icon(HttpReply& reply) { reply.send(204, {{"Cache-Control", "max-age=86400"}}, ""); }

}  // namespace colibri
