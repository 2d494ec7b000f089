package io.holdfast.internal.core;

import java.util.concurrent.Executor;
import java.util.function.Function;

/** The values of a client's options. 0 and empty are the URL's or the core's choice. */
public final class ClientSettings extends Settings<ClientSettings> {
    private static Function<Object, ClientSettings> opener;

    public long connectTimeoutMillis;
    public long commandTimeoutMillis;
    public long keepAliveMillis;
    public long fenceLifeMillis;
    public String clientName = "";
    public int lazy = Core.HF_DEFAULT;
    public int alarmTimeouts;
    public long alarmWindowMillis;
    public boolean countNames;
    public int namesMax;

    /** Null: the alarm is only logged. */
    public AlarmAction onAlarm;

    /** Null: trouble is only logged. */
    public TroubleAction onTrouble;

    /** Null: the client's own threads. */
    public Executor executor;

    public boolean closeAtExit = true;

    /** The action that runs when an alarm is raised. */
    public interface AlarmAction {
        void run(String name, long timeouts, String message);
    }

    /** The action that runs on trouble, whose kind has its name in the public enum. */
    public interface TroubleAction {
        void run(String kind, long holds, long leftMillis, String message);
    }

    /** Sets the function that reads the settings of ClientOptions, which show them to no other class. */
    public static void openBy(Function<Object, ClientSettings> function) {
        opener = function;
    }

    public static ClientSettings of(Object options) {
        return opener.apply(options);
    }

    /** Returns the options of the core, which lacks some of these. */
    public hf_client_options toCore() {
        hf_client_options core = new hf_client_options();
        core.setConnect_timeout_ms(connectTimeoutMillis);
        core.setCommand_timeout_ms(commandTimeoutMillis);
        core.setKeepalive_ms(keepAliveMillis);
        core.setFence_life_ms(fenceLifeMillis);
        core.setClient_name(clientName);
        core.setLazy(lazy);
        core.setAlarm_timeouts(alarmTimeouts);
        core.setAlarm_window_ms(alarmWindowMillis);
        core.setCount_names(countNames ? Core.HF_ON : Core.HF_DEFAULT);
        core.setNames_max(namesMax);
        core.setTrouble(Core.HF_ON);
        return core;
    }
}
