// A model in a C program: a stream, then two threads that ask at once.
//   cc -std=c99 generate.c $(pkg-config --cflags --libs colibri) -lpthread -o generate
//   ./generate MODEL
#include <colibri.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static int print_piece(void* user, const colibri_piece* piece) {
  size_t* num_pieces = user;
  ++*num_pieces;
  fwrite(piece->text, 1, piece->text_bytes, stdout);
  fflush(stdout);
  return 0;  // not 0 would cancel
}

static void print_log(void* user, int level, const char* text) {
  (void)user;
  fprintf(stderr, "colibri (%d): %s\n", level, text);
}

struct task {
  colibri_engine* engine;
  const char* prompt;
  colibri_result result;
  colibri_error error;
  int code;
};

static void* ask(void* argument) {
  struct task* task = argument;
  colibri_request request = {.struct_size = sizeof request};
  request.prompt = task->prompt;
  request.max_tokens = 16;
  task->code = colibri_infer(task->engine, &request, &task->result, &task->error);
  return NULL;
}

static int stream(colibri_engine* engine) {
  colibri_error error = {.struct_size = sizeof error};
  colibri_result result = {.struct_size = sizeof result};
  colibri_request request = {.struct_size = sizeof request};
  request.prompt = "ROMEO:";
  request.max_tokens = 32;
  size_t num_pieces = 0;
  const int code = colibri_stream(engine, &request, print_piece, &num_pieces, &result, &error);
  if (code != COLIBRI_OK) fprintf(stderr, "colibri_stream: %s\n", error.text);
  printf("\n-- %zu tokens after %lld of the prompt\n", result.num_ids,
         (long long)result.num_prompt_ids);
  colibri_result_free(&result);
  return code;
}

static int ask_twice(colibri_engine* engine) {
  static const char* const kPrompts[2] = {"JULIET:", "def "};
  struct task tasks[2];
  pthread_t threads[2];
  memset(tasks, 0, sizeof tasks);
  for (int i = 0; i < 2; ++i) {
    tasks[i].engine = engine;
    tasks[i].prompt = kPrompts[i];
    tasks[i].result.struct_size = sizeof tasks[i].result;
    tasks[i].error.struct_size = sizeof tasks[i].error;
    if (pthread_create(&threads[i], NULL, ask, &tasks[i]) != 0) return COLIBRI_ENVIRONMENT;
  }
  int code = COLIBRI_OK;
  for (int i = 0; i < 2; ++i) {
    pthread_join(threads[i], NULL);
    if (tasks[i].code != COLIBRI_OK) {
      code = tasks[i].code;
      fprintf(stderr, "colibri_infer: %s\n", tasks[i].error.text);
    } else {
      printf("== %s%s\n", tasks[i].prompt, tasks[i].result.text);
    }
    colibri_result_free(&tasks[i].result);
  }
  return code;
}

int main(int argc, char** argv) {
  colibri_options options = {.struct_size = sizeof options};
  options.model = argc > 1 ? argv[1] : "configs/models/demo";
  options.ranks = 3;
  options.max_context = 1024;
  options.log = print_log;
  colibri_error error = {.struct_size = sizeof error};
  colibri_engine* engine = NULL;
  int code = colibri_init(&options, &engine, &error);
  if (code != COLIBRI_OK) {
    fprintf(stderr, "colibri_init (%s): %s\n", colibri_code_name(code), error.text);
    return 1;
  }
  code = stream(engine);
  if (code == COLIBRI_OK) code = ask_twice(engine);
  colibri_free(engine);
  return code == COLIBRI_OK ? 0 : 1;
}
