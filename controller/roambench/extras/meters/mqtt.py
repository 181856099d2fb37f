"""Driver of meters that publish their watts by MQTT: plugs with Tasmota or ESPHome, Zigbee plugs."""

from __future__ import annotations

from typing import Final

from roambench.extras.meters.mqtt_frames import UNITS, MqttFrames
from roambench.extras.meters.mqtt_topic import MqttTopic
from roambench.meters.driver import Driver, option_period_s, row_of
from roambench.meters.ports import Port, host_port
from roambench.meters.traits import MeterTraits

_PORT: Final = 1883
_TLS_PORT: Final = 8883
_PERIOD_S: Final = 1.0
_LATE_S: Final = 2.0
_MOST_TOPIC: Final = 256


#: Of a plug whose data sheet is unknown: 2 % and 0.5 W (assumed: calibrate it), a value in tenths of a watt
#: that is the mean of up to a period, and up to a period old.
MQTT_TRAITS: Final = MeterTraits(
    "mqtt", _PERIOD_S, window_s=_PERIOD_S, latch_s=_PERIOD_S, u_gain=0.02, u_offset_w=0.5, step_w=0.1
)


def _topic(port: Port) -> MqttTopic:
    scheme, _, rest = port.address.rpartition("://")
    if scheme not in ("", "mqtt", "mqtts"):
        raise port.mistake(f"expected mqtt:// or mqtts://, got {scheme}://")
    ca = port.options.get("ca", "")
    if ca and scheme == "mqtt":
        raise port.mistake("ca: expected mqtts://, as mqtt:// checks no certificate")
    tls = bool(ca) or scheme == "mqtts"
    broker, slash, topic = rest.partition("/")
    if not slash or not topic or len(topic.encode()) > _MOST_TOPIC or any(c in topic for c in "+#"):
        raise port.mistake("expected [mqtts://]HOST[:PORT]/TOPIC with one meter's topic, without + or #")
    if "@" in broker:
        raise port.mistake("expected no user or password in it: login=FILE names a file with USER:PASSWORD")
    host, number = host_port(broker, _TLS_PORT if tls else _PORT, port.mistake)
    qos = int(port.choice("qos", ("0", "1"), "0"))
    return MqttTopic(host, number, topic, qos, port.options.get("login", ""), tls, ca)


def _frames(port: Port) -> MqttFrames:
    return MqttFrames(
        option_period_s(port) or _PERIOD_S,
        port.options.get("field", ""),
        UNITS[port.choice("unit", UNITS, "W")],
        port.options.get("time", ""),
        port.number("late_s", _LATE_S),
    )


MQTT: Final = Driver(
    name="mqtt",
    summary="watts that a plug or sensor publishes by MQTT: Tasmota, ESPHome, Zigbee",
    address="[mqtts://]BROKER[:1883]/TOPIC",
    options=("field", "unit", "time", "late_s", "period_s", "qos", "login", "ca"),
    power="",
    traits=row_of("mqtt"),
    source=_topic,
    frames=_frames,
    period_s=option_period_s,
    silence="does something publish to this topic (mosquitto_sub -t shows it), are field and unit right?",
)
