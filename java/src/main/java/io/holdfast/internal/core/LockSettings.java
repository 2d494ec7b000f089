package io.holdfast.internal.core;

import java.util.function.Function;

/** The values of a lock's options. 0 and null are the core's choice. */
public final class LockSettings extends Settings<LockSettings> {
    /** Reads the settings of LockOptions, which show them to no other class. */
    private static Function<Object, LockSettings> opener;

    public long leaseMillis;
    public int renew = Core.HF_DEFAULT;
    public long maxHoldMillis;
    public boolean heal;
    public int replicas;
    public long replicaTimeoutMillis;
    public boolean reentrant = true;
    public long permits;
    public long weight = 1;
    public long aheadMillis;
    public int countName = Core.HF_DEFAULT;
    public int alarmTimeouts;
    public long alarmWindowMillis;

    /** Whether an acquire returns only with the whole lease, as a leader needs it. */
    public boolean whole;

    /** Null: the calling thread, or, if not reentrant, a new owner for each acquire. */
    public byte[] owner;

    /** The purpose of the holds, in UTF-8; or null. */
    public byte[] note;

    /** Returns the note with the trace id of the current span; null: the core uses the lock's note, if any. */
    public byte[] tracedNote() {
        return note == null ? null : Trace.added(note);
    }

    public static void openBy(Function<Object, LockSettings> function) {
        opener = function;
    }

    public static LockSettings of(Object options) {
        return opener.apply(options);
    }

    /** Whether a shared hold is a pass of the rate that is stored with the name. */
    public boolean isStored() {
        return leaseMillis == Millis.STORED;
    }

    public hf_lock_options toCore(boolean shared) {
        hf_lock_options core = new hf_lock_options();
        core.setLease_ms(isStored() && !shared ? 0 : leaseMillis);
        core.setRenew(renew);
        core.setMax_hold_ms(maxHoldMillis);
        core.setMode(shared ? Core.HF_SHARED : Core.HF_EXCLUSIVE);
        core.setPermits(shared ? permits : 0);
        core.setWeight(shared ? weight : 0);
        core.setAhead_ms(aheadMillis);
        core.setReentrant(reentrant ? Core.HF_ON : Core.HF_OFF);
        core.setHeal(heal ? Core.HF_ON : Core.HF_OFF);
        core.setReplicas(replicas);
        core.setReplica_timeout_ms(replicaTimeoutMillis);
        core.setCount_name(countName);
        core.setAlarm_timeouts(alarmTimeouts);
        core.setAlarm_window_ms(alarmWindowMillis);
        if (note != null) {
            core.set_note(note);
        }
        return core;
    }
}
