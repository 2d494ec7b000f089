/*
 * The public header as SWIG sees it, for every language. No logic.
 *
 * python.i and java.i define how their language takes and returns bytes, handles
 * and errors, and then include this file.
 */
/* In the runtime section, so that every %{ %} block can use it. */
%runtime %{
#include <holdfast/holdfast.h>
%}

%include <stdint.i>

/* A macro of <stdint.h>, which SWIG does not read. */
#define INT64_C(number) number##LL

/* The handles: opaque, and made only by the library. */
%nodefaultctor hf_client;
%nodefaultctor hf_lock;
%nodefaultctor hf_hold;
%nodefaultctor hf_brake;
%nodefaultctor hf_histogram;
%nodefaultctor hf_locks;
%nodefaultctor hf_view;
%nodefaultdtor hf_client;
%nodefaultdtor hf_lock;
%nodefaultdtor hf_hold;
%nodefaultdtor hf_brake;
%nodefaultdtor hf_histogram;
%nodefaultdtor hf_locks;
%nodefaultdtor hf_view;
struct hf_client {};
struct hf_lock {};
struct hf_hold {};
struct hf_brake {};
struct hf_locks {};
struct hf_view {};

/* The structs: made as the header requires, zeroed and with the size set. */
%define %sized(STRUCT)
%ignore STRUCT::size;
%ignore STRUCT::reserved;
%extend STRUCT {
    STRUCT(void)
    {
        STRUCT *made = calloc(1, sizeof *made);
        if (made)
            made->size = sizeof *made;
        return made;
    }
}
%enddef
%sized(hf_client_options)
%sized(hf_lock_options)
%sized(hf_acquire_options)

/* The note is copied: the struct keeps the copy for as long as it lives. */
%define %noted(STRUCT)
%ignore STRUCT::note;
%ignore STRUCT::note_len;
%extend STRUCT {
    ~STRUCT()
    {
        free((void *)$self->note);
        free($self);
    }
    void set_note(const void *note, size_t note_len)
    {
        void *copy = malloc(note_len + 1);
        if (copy && note_len > 0)
            memcpy(copy, note, note_len);
        free((void *)$self->note);
        $self->note = copy;
        $self->note_len = copy ? note_len : 0;
    }
}
%enddef
%noted(hf_lock_options)
%noted(hf_acquire_options)
%sized(hf_lock_info)
%sized(hf_stats)
%sized(hf_locks_options)
%sized(hf_progress)
%sized(hf_owner_parts)
%sized(hf_once_info)

%include <holdfast/holdfast.h>
