// What goes wrong through colibri.h: wrong arguments, cancelling, freeing while requests run, calls
// from callbacks, forks. One case a process:
//   embedding_faults CASE
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/embedding/checks.h"

// The call fails with this code and a text that says `words`.
#define CHECK_FAILS(call, wanted, words)                                                 \
  do {                                                                                   \
    colibri_error error = {.struct_size = sizeof error};                                 \
    CHECK_CODE(call, wanted);                                                            \
    if (error.code != (wanted) || strstr(error.text, words) == NULL) {                   \
      printf("%s:%d: %lld '%s', want '%s'\n", __FILE__, __LINE__, (long long)error.code, \
             error.text, words);                                                         \
      exit(1);                                                                           \
    }                                                                                    \
  } while (0)

static void wrong_options_are_named(void) {
  colibri_engine* engine = (colibri_engine*)&engine;
  colibri_options options = {.struct_size = sizeof options};
  CHECK_FAILS(colibri_init(NULL, &engine, &error), COLIBRI_INPUT, "colibri_options is NULL");
  CHECK(engine == NULL);
  CHECK_FAILS(colibri_init(&options, NULL, &error), COLIBRI_INPUT, "NULL");
  CHECK_FAILS(colibri_init(&options, &engine, &error), COLIBRI_INPUT, "model is not set");
  options.model = "/no/such/model";
  CHECK_FAILS(colibri_init(&options, &engine, &error), COLIBRI_ENVIRONMENT, "/no/such/model");
  options.model = COLIBRI_DEMO;
  options.device = "abacus";
  CHECK_FAILS(colibri_init(&options, &engine, &error), COLIBRI_INPUT, "abacus");
  options.device = NULL;
  options.ranks = 65;
  CHECK_FAILS(colibri_init(&options, &engine, &error), COLIBRI_INPUT, "ranks is 65");
  options.ranks = 3;
  options.max_context = 4096;
  CHECK_FAILS(colibri_init(&options, &engine, &error), COLIBRI_INPUT, "4096");
  options.max_context = 0;
  options.threads = -1;
  CHECK_FAILS(colibri_init(&options, &engine, &error), COLIBRI_INPUT, "-1");
  options.threads = 0;
  options.placement = "/no/such/placement";
  CHECK_FAILS(colibri_init(&options, &engine, &error), COLIBRI_ENVIRONMENT, "/no/such/placement");
  options.placement = NULL;
  options.log_level = 9;
  CHECK_FAILS(colibri_init(&options, &engine, &error), COLIBRI_INPUT, "log_level is 9");
  CHECK(engine == NULL);
}

static void structs_of_other_versions(void) {
  colibri_engine* engine = NULL;
  struct {
    colibri_options known;
    int64_t newer[2];
  } options = {.known = {.struct_size = sizeof options, .model = COLIBRI_DEMO, .max_context = 256}};
  options.newer[1] = 1;
  CHECK_FAILS(colibri_init(&options.known, &engine, &error), COLIBRI_UNSUPPORTED, "does not know");
  options.newer[1] = 0;
  CHECK_CODE(colibri_init(&options.known, &engine, NULL), COLIBRI_OK);
  static const size_t kNoSizes[] = {0, 8, 16, 20, 159, 161, 4104, (size_t)-8};
  for (size_t i = 0; i < sizeof kNoSizes / sizeof *kNoSizes; ++i) {
    colibri_request request = ask("ROMEO:", 2);
    request.struct_size = kNoSizes[i];
    colibri_result none = {.struct_size = sizeof none};
    CHECK_FAILS(colibri_infer(engine, &request, &none, &error), COLIBRI_INPUT, "struct_size");
    CHECK(none.memory == NULL);
  }
  // Only the prompt, and a result without times: what follows is not read and not written.
  struct {
    size_t struct_size;
    const char* prompt;
    size_t prompt_bytes;
    size_t beyond[20];
  } old = {.struct_size = 3 * 8, .prompt = "ROMEO:"};
  memset(old.beyond, 0xff, sizeof old.beyond);
  colibri_result result;
  memset(&result, 0xff, sizeof result);
  result.struct_size = offsetof(colibri_result, finish);
  CHECK_CODE(colibri_infer(engine, (const colibri_request*)&old, &result, NULL), COLIBRI_OK);
  CHECK(result.num_ids > 0 && result.text_bytes == strlen(result.text) && result.finish == -1);
  colibri_result_free(&result);
  CHECK(result.text == NULL && result.finish == -1);
  colibri_result_free(&result);
  colibri_error error = {.struct_size = 12};
  CHECK_CODE(colibri_cancel(NULL, 1), COLIBRI_INPUT);
  CHECK_CODE(colibri_infer(NULL, NULL, NULL, &error), COLIBRI_INPUT);
  CHECK(error.code == 0 && error.text[0] == 0);
  CHECK_CODE(colibri_free(engine), COLIBRI_OK);
}

static void check_refused(colibri_engine* engine, const colibri_request* request,
                          const char* words) {
  colibri_result result = {.struct_size = sizeof result};
  CHECK_FAILS(colibri_infer(engine, request, &result, &error), COLIBRI_INPUT, words);
  CHECK(result.num_ids == 0);
  colibri_result_free(&result);
}

static void wrong_requests_are_named(void) {
  colibri_engine* engine = start_demo(1);
  colibri_request request = ask(NULL, 4);
  check_refused(engine, &request, "want one");
  request = ask("", 4);
  check_refused(engine, &request, "empty");
  request = ask("ROMEO:", 4);
  request.messages = "[]";
  check_refused(engine, &request, "2 of prompt");
  request.prompt = NULL;
  request.messages = "[{]";
  check_refused(engine, &request, "messages");
  int32_t ids[512] = {0};
  request = ask(NULL, 4);
  request.prompt_ids = ids;
  check_refused(engine, &request, "empty");
  request.num_prompt_ids = 512;
  check_refused(engine, &request, "512 tokens, want at most 511");
  request.num_prompt_ids = 2;
  ids[1] = 1536;
  check_refused(engine, &request, "1536");
  ids[1] = -1;
  check_refused(engine, &request, "-1");
  request = ask("ROMEO:", -1);
  check_refused(engine, &request, "max_tokens is -1");
  request = ask("ROMEO:", 4);
  request.temperature = 0.0 / 0.0 * -1;
  check_refused(engine, &request, "temperature");
  request.temperature = 1;
  request.top_p = 1.5;
  check_refused(engine, &request, "top-p");
  request.top_p = 0;
  request.num_stop = 1;
  check_refused(engine, &request, "num_stop");
  request.num_stop = 0;
  request.num_stop_ids = (size_t)-1;
  check_refused(engine, &request, "stop_ids");
  request = ask("\xff\xfe ROMEO \xc3", 4);  // what is no UTF-8 is U+FFFD
  CHECK_CODE(colibri_stream(engine, &request, NULL, NULL, NULL, NULL), COLIBRI_INPUT);
  colibri_result result = {.struct_size = sizeof result};
  CHECK_CODE(colibri_infer(engine, &request, &result, NULL), COLIBRI_OK);
  colibri_result_free(&result);
  CHECK_CODE(colibri_free(engine), COLIBRI_OK);
  CHECK_CODE(colibri_free(NULL), COLIBRI_OK);
  colibri_result_free(NULL);
}

// ---- Cancelling ---------------------------------------------------------------------------------

static int stop_at(void* user, const colibri_piece* piece) {
  int* left = user;
  (void)piece;
  CHECK(*left > 0);  // not called again after it has said no
  return --*left == 0;
}

static void callback_cancels(void) {
  colibri_engine* engine = start_demo(2);
  const colibri_request request = ask("ROMEO:", 400);
  colibri_result result = {.struct_size = sizeof result};
  int left = 3;
  CHECK_FAILS(colibri_stream(engine, &request, stop_at, &left, &result, &error), COLIBRI_CANCELLED,
              "callback");
  CHECK(left == 0 && result.num_ids >= 3 && result.num_ids < 400);
  CHECK(result.finish == COLIBRI_FINISH_CANCELLED && result.text_bytes > 0);
  colibri_result_free(&result);
  CHECK_CODE(colibri_free(engine), COLIBRI_OK);
}

struct long_run {
  colibri_engine* engine;
  int64_t id;
  int code;       // -1: it has not returned
  int has_begun;  // a piece came
  colibri_result result;
  colibri_error error;
  pthread_t thread;
};

static int sleep_a_little(void* user, const colibri_piece* piece) {
  struct long_run* run = user;
  (void)piece;
  __atomic_store_n(&run->has_begun, 1, __ATOMIC_SEQ_CST);
  usleep(1000);
  return 0;
}

static void* run_long(void* argument) {
  struct long_run* run = argument;
  colibri_request request = ask("ROMEO:", 500);
  request.id = run->id;
  request.ignore_eos = 1;
  const int code =
      colibri_stream(run->engine, &request, sleep_a_little, run, &run->result, &run->error);
  __atomic_store_n(&run->code, code, __ATOMIC_SEQ_CST);
  return NULL;
}

static void start_long(struct long_run* run, colibri_engine* engine, int64_t id) {
  memset(run, 0, sizeof *run);
  run->engine = engine;
  run->id = id;
  run->code = -1;
  run->result.struct_size = sizeof run->result;
  run->error.struct_size = sizeof run->error;
  CHECK(pthread_create(&run->thread, NULL, run_long, run) == 0);
}

// Until the request has been cancelled, or has ended by itself.
static void cancel_for_certain(struct long_run* run) {
  while (colibri_cancel(run->engine, run->id) == COLIBRI_NOT_FOUND) {
    if (__atomic_load_n(&run->code, __ATOMIC_SEQ_CST) != -1) return;
    usleep(100);
  }
}

static void another_thread_cancels_by_id(void) {
  colibri_engine* engine = start_demo(3);
  CHECK_CODE(colibri_cancel(engine, 41), COLIBRI_NOT_FOUND);
  CHECK_CODE(colibri_cancel(engine, 0), COLIBRI_INPUT);
  struct long_run one, two;
  start_long(&one, engine, 41);
  start_long(&two, engine, 42);
  cancel_for_certain(&one);
  pthread_join(one.thread, NULL);
  CHECK(one.code == COLIBRI_CANCELLED && one.result.num_ids < 500);
  CHECK(strstr(one.error.text, "cancelled") != NULL);
  pthread_join(two.thread, NULL);
  CHECK(two.code == COLIBRI_OK && two.result.finish == COLIBRI_FINISH_LENGTH);
  colibri_result_free(&one.result);
  colibri_result_free(&two.result);
  CHECK_CODE(colibri_free(engine), COLIBRI_OK);
}

static void time_out_ends_a_request(void) {
  colibri_engine* engine = start_demo(1);
  colibri_request request = ask("ROMEO:", 500);
  request.ignore_eos = 1;
  request.timeout_ms = 5;
  colibri_result result = {.struct_size = sizeof result};
  CHECK_FAILS(colibri_infer(engine, &request, &result, &error), COLIBRI_TIMEOUT, "timeout_ms, 5");
  CHECK(result.num_ids < 499 && result.finish == COLIBRI_FINISH_CANCELLED);
  colibri_result_free(&result);
  CHECK_CODE(colibri_free(engine), COLIBRI_OK);
}

static void free_ends_what_runs(void) {
  enum { kRunning = 16, kRuns = 20 };  // as many as run at once, then some that wait
  colibri_engine* engine = start_demo(2);
  struct long_run runs[kRuns];
  for (int i = 0; i < kRuns; ++i) start_long(&runs[i], engine, i + 1);
  // All are under way: no call begins after colibri_free.
  for (int i = 0; i < kRunning / 2; ++i) {
    while (!__atomic_load_n(&runs[i].has_begun, __ATOMIC_SEQ_CST)) usleep(100);
  }
  for (int i = kRunning / 2; i < kRuns; ++i) cancel_for_certain(&runs[i]);
  CHECK_CODE(colibri_free(engine), COLIBRI_OK);
  for (int i = 0; i < kRuns; ++i) {
    pthread_join(runs[i].thread, NULL);
    CHECK(runs[i].code == COLIBRI_CANCELLED || runs[i].code == COLIBRI_OK);
    colibri_result_free(&runs[i].result);
  }
}

// ---- Callbacks and processes --------------------------------------------------------------------

struct reentry {
  colibri_engine* engine;
  int num_calls;
};

static int call_back_into(void* user, const colibri_piece* piece) {
  struct reentry* reentry = user;
  colibri_engine* engine = reentry->engine;
  (void)piece;
  // What was made before the engine saw the cancel may still come.
  if (++reentry->num_calls > 1) return 0;
  const colibri_request request = ask("def ", 2);
  colibri_result result = {.struct_size = sizeof result};
  CHECK_FAILS(colibri_infer(engine, &request, &result, &error), COLIBRI_STATE, "callback");
  CHECK_CODE(colibri_stream(engine, &request, call_back_into, user, NULL, NULL), COLIBRI_STATE);
  CHECK_CODE(colibri_free(engine), COLIBRI_STATE);
  CHECK_CODE(colibri_tokenize(engine, &request, &result, NULL), COLIBRI_OK);
  colibri_result_free(&result);
  CHECK_CODE(colibri_cancel(engine, 7), COLIBRI_OK);
  return 0;
}

static void callback_may_cancel_but_not_wait(void) {
  colibri_engine* engine = start_demo(2);
  colibri_request request = ask("ROMEO:", 400);
  request.id = 7;
  colibri_result result = {.struct_size = sizeof result};
  struct reentry reentry = {engine, 0};
  CHECK_CODE(colibri_stream(engine, &request, call_back_into, &reentry, &result, NULL),
             COLIBRI_CANCELLED);
  CHECK(reentry.num_calls > 0);
  colibri_result_free(&result);
  request = ask("ROMEO:", 2);
  CHECK_CODE(colibri_infer(engine, &request, &result, NULL), COLIBRI_OK);
  colibri_result_free(&result);
  CHECK_CODE(colibri_free(engine), COLIBRI_OK);
}

static void forked_child_is_refused(void) {
  colibri_engine* engine = start_demo(2);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    const colibri_request request = ask("ROMEO:", 2);
    colibri_result result = {.struct_size = sizeof result};
    CHECK_FAILS(colibri_infer(engine, &request, &result, &error), COLIBRI_STATE, "forked");
    CHECK_CODE(colibri_free(engine), COLIBRI_STATE);
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK_CODE(colibri_free(engine), COLIBRI_OK);
}

struct heard {
  int num_lines, highest;
};

static void hear(void* user, int level, const char* text) {
  struct heard* heard = user;
  CHECK(text[0] != 0 && strchr(text, '\r') == NULL);
  ++heard->num_lines;
  if (level > heard->highest) heard->highest = level;
}

static void log_goes_to_the_callback_alone(void) {
  FILE* file = tmpfile();
  const int before[2] = {dup(1), dup(2)};
  CHECK(file != NULL && dup2(fileno(file), 1) == 1 && dup2(fileno(file), 2) == 2);
  struct heard heard = {0, 0};
  colibri_options options = {.struct_size = sizeof options, .model = COLIBRI_DEMO};
  options.ranks = 3;
  options.max_context = 256;
  options.log = hear;
  options.log_user = &heard;
  options.log_level = COLIBRI_LOG_DEBUG;
  colibri_engine* engine = NULL;
  const int code = colibri_init(&options, &engine, NULL);
  colibri_free(engine);
  options.model = "/no/such/model";
  const int second_code = colibri_init(&options, &engine, NULL);
  fseek(file, 0, SEEK_END);
  const long written = ftell(file);
  dup2(before[0], 1);
  dup2(before[1], 2);
  CHECK(code == COLIBRI_OK && second_code == COLIBRI_ENVIRONMENT);
  CHECK(written == 0);
  CHECK(heard.num_lines > 0 && heard.highest >= COLIBRI_LOG_INFO);
  fclose(file);
}

int main(int argc, char** argv) {
  static const struct named_case kCases[] = {
      {"wrong_options_are_named", wrong_options_are_named},
      {"structs_of_other_versions", structs_of_other_versions},
      {"wrong_requests_are_named", wrong_requests_are_named},
      {"callback_cancels", callback_cancels},
      {"another_thread_cancels_by_id", another_thread_cancels_by_id},
      {"time_out_ends_a_request", time_out_ends_a_request},
      {"free_ends_what_runs", free_ends_what_runs},
      {"callback_may_cancel_but_not_wait", callback_may_cancel_but_not_wait},
      {"forked_child_is_refused", forked_child_is_refused},
      {"log_goes_to_the_callback_alone", log_goes_to_the_callback_alone},
  };
  return run_case(argc, argv, kCases, sizeof kCases / sizeof *kCases);
}
